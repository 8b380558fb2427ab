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


def canvases() -> st.SearchStrategy[list[Segment]]:
    """An image on a canvas, and text that it keeps at its start."""
    places = st.lists(st.tuples(st.integers(-1, 6), st.integers(-1, 6)), min_size=1, max_size=9)

    def made(found: list[tuple[int, int]], num_kept: int) -> list[Segment]:
        most = 1 + max(0, *map(max, found))
        image = Image(bytes([len(found)]) * 16, 1, len(found), most, canvas=tuple(found))
        return [image, *[TextRun((5,), most)] * num_kept]

    return st.builds(made, places, st.integers(0, 2))


def segments(max_size: int = 6) -> st.SearchStrategy[list[Segment]]:
    alone = st.one_of(texts(), images()).map(lambda segment: [segment])
    return (
        st.lists(st.one_of(alone, canvases()), max_size=max_size)
        .map(lambda found: [segment for parts in found for segment in parts])
        .filter(lambda found: any(segment.num_tokens for segment in found))
    )
