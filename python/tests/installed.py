"""Says in a line which releases of what matters are installed, and fails unless imgfeed is."""

import importlib
import platform
import sys
import sysconfig

import imgfeed
from imgfeed.programs import find_binary

for path in (imgfeed.__file__, find_binary()):
    assert path.startswith(sys.prefix), f"{path} is not the wheel's"
found = []
for name in ("numpy", "torch", "torchvision", "PIL"):
    try:
        found.append(f"{name} {importlib.import_module(name).__version__}")
    except ImportError:
        found.append(f"no {name}")
free = (
    "" if not sysconfig.get_config_var("Py_GIL_DISABLED") else f" free-threaded, GIL {'on' if sys._is_gil_enabled() else 'off'}"
)
print(f"Python {platform.python_version()}{free}: {', '.join(found)}")
