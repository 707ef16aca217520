"""The same as `situations_recompile`, for what is around a call: modes, torch's global state and backends."""

from __future__ import annotations

from situations_recompile import NONE
from situations_recompile import Situation
from situations_recompile import Told
from situations_recompile import body
from situations_recompile import double

MODES = (
    "the torch function modes around the call changed "
    "(torch.set_default_device, with torch.device(...), or a TorchFunctionMode)"
)
GRAD_OFF = Told("grad_mode", "on", "off", "grad mode went from on to off (no_grad around the call)")
GRAD_ON = Told("grad_mode", "off", "on", "grad mode went from off to on (no no_grad around the call any more)")

AROUND_SITUATIONS = {
    "no_grad": double("f(x)\nwith torch.no_grad():\n    f(x)", GRAD_OFF),
    "no_grad left": double("with torch.no_grad():\n    f(x)\nf(x)", GRAD_ON),
    "enable_grad": double(
        "with torch.no_grad():\n    f(x)\n    with torch.enable_grad():\n        f(x)",
        GRAD_ON,
    ),
    "no_grad in a thread": double(
        "import threading\nwith torch.no_grad():\n    f(x)\n"
        "t = threading.Thread(target=f, args=(x,))\nt.start()\nt.join()",
        GRAD_ON,
    ),
    "inference_mode": double(
        "f(x)\nwith torch.inference_mode():\n    f(x)",
        Told("inference_mode", "off", "on", "inference_mode was switched on around the call"),
    ),
    "inference_mode left": double(
        "with torch.inference_mode():\n    f(x)\nf(x)",
        Told("inference_mode", "on", "off", "inference_mode was switched off around the call"),
    ),
    "inference_mode after no_grad": Situation(
        "@compiled\ndef f(x, a):\n    return x * a\n\nx, y = torch.ones(3), torch.zeros(3)\n"
        "with torch.no_grad():\n    f(x, y)\nwith torch.inference_mode():\n    f(x, y)\n",
        (Told("inference_mode", "off", "on", "inference_mode was switched on around the call"),),
    ),
    "autocast": double(
        "f(x)\nwith torch.autocast('cpu'):\n    f(x)",
        Told("autocast", "off", "on", "autocast on cpu went from off to on (torch.autocast around the call)"),
    ),
    "autocast left": double(
        "with torch.autocast('cpu'):\n    f(x)\nf(x)",
        Told("autocast", "on", "off", "autocast on cpu went from on to off (torch.autocast around the call)"),
    ),
    "autocast dtype": double(
        "for dtype in (torch.bfloat16, torch.float16):\n    with torch.autocast('cpu', dtype):\n        f(x)",
        Told(
            "autocast",
            "bfloat16",
            "float16",
            "the dtype of autocast on cpu went from bfloat16 to float16 (torch.autocast around the call)",
        ),
    ),
    "default dtype": double(
        "f(x)\ntorch.set_default_dtype(torch.float64)\nf(x)\ntorch.set_default_dtype(torch.float32)",
        Told(
            "global_state",
            "float32",
            "float64",
            "the default dtype went from float32 to float64 (torch.set_default_dtype)",
        ),
    ),
    "deterministic": double(
        "f(x)\ntorch.use_deterministic_algorithms(True)\nf(x)\ntorch.use_deterministic_algorithms(False)",
        Told(
            "global_state",
            "off",
            "on",
            "deterministic algorithms went from off to on (torch.use_deterministic_algorithms)",
        ),
    ),
    "number of threads": double(
        "n = torch.get_num_threads()\ntorch.set_num_threads(1)\nf(x)\ntorch.set_num_threads(2)\nf(x)\n"
        "torch.set_num_threads(n)",
        Told("global_state", "1", "2", "the number of threads went from 1 to 2 (torch.set_num_threads)"),
    ),
    "matmul precision": double(
        "f(x)\ntorch.set_float32_matmul_precision('high')\nf(x)\ntorch.set_float32_matmul_precision('highest')",
        Told(
            "global_state",
            "off",
            "on",
            "TF32 in matrix products went from off to on (torch.set_float32_matmul_precision, allow_tf32)",
        ),
    ),
    "with a device": double(
        "f(x)\nwith torch.device('meta'):\n    f(x)",
        Told("global_state", "", "", MODES),
    ),
    "a torch function mode": double(
        "from torch.overrides import TorchFunctionMode\n\nclass Mode(TorchFunctionMode):\n"
        "    def __torch_function__(self, func, types, args=(), kwargs=None):\n"
        "        return func(*args, **(kwargs or {}))\n\nf(x)\nwith Mode():\n    f(x)",
        Told("global_state", "", "", MODES),
    ),
    "a torch dispatch mode": double(
        "from torch.utils._python_dispatch import TorchDispatchMode\n\nclass Mode(TorchDispatchMode):\n"
        "    def __torch_dispatch__(self, func, types, args=(), kwargs=None):\n"
        "        return func(*args, **(kwargs or {}))\n\nf(x)\nwith Mode():\n    f(x)",
        *NONE,
    ),
    "saved-tensor hooks": double(
        "x.requires_grad_()\nf(x)\nwith torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):\n    f(x)",
        *NONE,
    ),
    "vmap": double(
        "f(x)\ntorch.func.vmap(f)(torch.ones(2, 3))",
        Told("transform", "none", "vmap", "torch.func around the call went from none to vmap (it wraps x)"),
    ),
    "another backend": Situation(
        "def f(x):\n    return x * 2\n\nfor backend in ('eager', 'aot_eager'):\n"
        "    torch.compile(f, backend=backend)(torch.ones(3))\n",
        (Told("backend", "eager", "aot_eager", "it was compiled with backend eager, now with aot_eager"),),
    ),
    "another option of the backend": Situation(
        "def f(x):\n    return x * 2\n\nfor dynamic in (None, True):\n"
        "    torch.compile(f, backend='eager', dynamic=dynamic)(torch.ones(3))\n",
        (Told("backend", "None", "True", "torch.compile's dynamic went from None to True (backend eager)"),),
    ),
    "fullgraph": Situation(
        "def f(x):\n    return x * 2\n\nfor fullgraph in (False, True):\n"
        "    torch.compile(f, backend='eager', fullgraph=fullgraph)(torch.ones(3))\n",
        NONE,
    ),
    "an environment variable": body(
        "x * 2 if os.environ.get('COMPILE_MAGIC_TEST') else x + 1",
        "import os\nf(x)\nos.environ['COMPILE_MAGIC_TEST'] = '1'\nf(x)\ndel os.environ['COMPILE_MAGIC_TEST']",
        *NONE,
        arguments="x",
    ),
}
