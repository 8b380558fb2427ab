"""llguidance reads its own version when it is imported."""

from PyInstaller.utils.hooks import copy_metadata

datas = copy_metadata("llguidance")
