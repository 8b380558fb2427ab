"""Hypothesis strategies for prompts: text with and without turn ends, images of all shapes."""

from hypothesis import strategies as st

from core.api.prompt import Image, Segment, TextRun

END = 99


def texts(max_size: int = 40) -> st.SearchStrategy[TextRun]:
    ids = st.one_of(st.integers(0, 8), st.just(END))
    return st.lists(ids, max_size=max_size).map(lambda ids: TextRun(tuple(ids)))


def images() -> st.SearchStrategy[Image]:
    side = st.integers(1, 5)
    return st.builds(
        lambda key, rows, columns, in_line: Image(
            bytes([key]) * 16,
            rows,
            columns,
            rows * columns if in_line else max(rows, columns),
            in_line,
        ),
        st.integers(0, 3),
        side,
        side,
        st.booleans(),
    )


def segments(max_size: int = 6) -> st.SearchStrategy[list[Segment]]:
    return st.lists(st.one_of(texts(), images()), max_size=max_size).filter(
        lambda found: any(segment.num_tokens for segment in found)
    )
