"""numpy, imported on first use: it takes longer to load than the rest of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    Floats = np.ndarray[Any, np.dtype[np.float64]]
else:

    class _Numpy:
        def __getattr__(self, name: str) -> Any:
            import numpy

            return getattr(numpy, name)

    np = _Numpy()
    Array = Floats = Any

__all__ = ["Array", "Floats", "np"]
