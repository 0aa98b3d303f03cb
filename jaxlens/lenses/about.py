"""What each lens answers, and how its figures are known: THE TABLE of `--help`.

Three kinds of knowing are told apart everywhere: what was measured on this machine, what XLA says
of its own program, and what jaxlens counts or concludes from the program's text.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class About:
    """One lens in words.

    Attributes:
        question: The question that it answers.
        measured: What was timed or tried on this machine; "" for nothing.
        xla: What is XLA's own figure or estimate; "" for nothing.
        ours: What jaxlens counts or concludes; "" for nothing.
    """

    question: str
    measured: str = ""
    xla: str = ""
    ours: str = ""

    def __str__(self) -> str:
        rows = (("measured", self.measured), ("XLA's own", self.xla), ("counted", self.ours))
        return "\n".join([self.question, *(f"  {name}: {text}" for name, text in rows if text)])


ABOUT: Mapping[str, About] = {
    "against": About(
        "What changed since then?",
        measured="seconds of each step, once each",
        xla="memory and bytes accessed of both programs",
        ours="which equations and instructions are the same: by what they compute, then by the "
        "text of their line; flops of the equations",
    ),
    "cost": About(
        "Where do flops and bytes go?",
        measured="with --run N: seconds of each kernel, from the profiler, which slows small ones",
        xla="flops and bytes of the optimised program, each loop body once",
        ours="flops by equation, line and kernel, a loop's body as often as it runs, a Pallas "
        "kernel's for each point of its grid; bytes of main memory that each kernel reads and "
        "writes if no cache helps; bytes of arguments and results, the least that can move",
    ),
    "roofline": About(
        "Which limit of the device does each kernel run into?",
        measured="with --roofline alone: flops per second of a matrix product and bytes per "
        "second of a pass over memory, once per process, on this device",
        ours="flops and bytes of each kernel; the best possible seconds are an estimate: flops or "
        "bytes over the device's limit, measured, or published by its maker (--roofline=h100)",
    ),
    "memory": About(
        "Which line owns the memory peak?",
        measured="with --checkpoint: the program under jax.checkpoint, compiled anew, not run",
        xla="sizes, places and live ranges of all buffers (its buffer assignment), per device",
        ours="what is in use at once: arguments and constants all the time, results once they are "
        "written, temporaries while they are needed; the line that made each, followed back "
        "through loops and copies; each memory of the device, such as a TPU's VMEM, by itself; "
        "what autodiff saves, from the jaxpr",
    ),
    "checkpoint": About(
        "What would jax.checkpoint change?",
        measured="the program with what it differentiates under jax.checkpoint, in up to five "
        "ways, each compiled anew and not run",
        ours="peak, saved bytes and flops of each, counted like those of the program itself",
    ),
    "ladder": About(
        "What did each transform make of the program?",
        ours="equations by rung and pass; an equation belongs to those below it with the same "
        "Python text, and by the rule that makes such equations",
    ),
    "sharding": About(
        "Which device holds what, and what travels between them?",
        xla="shardings of all values, as its partitioner was given them; collectives and their "
        "groups in the program that one device runs",
        ours="bytes of each piece and collective, times as often as its loops run; what a device "
        "sends is an estimate, as if each group were a ring",
    ),
    "tape": About(
        "What happens while JAX traces?",
        measured="nothing is timed; the lines are those that Python ran, the equations those that "
        "JAX had recorded after each",
        ours="which loops were unrolled and which branch was taken, from the text of the lines",
    ),
    "fusion": About(
        "What was fused, and why not the rest?",
        xla="its reasons to refuse and its cost model's microseconds, on GPUs alone",
        ours="bytes that the kernels move, and those that a fusion's operations would move one by "
        "one, less what it moves as one; what is computed again; who reads what",
    ),
    "without": About(
        "What does a pass or a flag do for this program?",
        measured="with --run N: seconds of both programs, turn by turn in a process of their own",
        xla="memory and bytes accessed of both programs",
        ours="which instructions are the same; the second program is compiled by XLA all the same",
    ),
    "times": About(
        "Where does compile time go?",
        measured="seconds of each step, once, on this machine; within the compile by XLA's own "
        "profiler, for which it is compiled again if it was before; of LLVM over each kernel by "
        "the times of its dumps",
        ours="equations by line and call path, every call written out; a loop is called unrolled "
        "where four or more blocks of equations do the same and each reads the one before alike",
    ),
    "captured": About(
        "What is captured?",
        measured="seconds of constant folding, where the compile was profiled (--times)",
        ours="arrays that the function closes over, their bytes, and who holds them, by identity; "
        "constants in each stage; what became a constant between StableHLO and HLO, and between "
        "the dumps before and after constant folding; of arrays of over 256 MB that is not known",
    ),
    "scan": About(
        "What would lax.scan in place of unrolled loops change?",
        measured="the program as it is and with scans made of its own equations, both traced, "
        "lowered and compiled; with --run both are run on random inputs and compared",
    ),
    "key": About(
        "What is a call looked up by in JAX's caches, and would it be found?",
        ours="the key made as JAX makes it, and compared with those that it holds; nothing is "
        "traced",
    ),
    "recompiles": About(
        "Why did it recompile?",
        measured="seconds of each trace, lowering and compile, by JAX; a cure is tried where it "
        "can be without running your program: its key is looked up, it is traced, or the programs "
        "that were made are compared; what was not tried says so",
        ours="each call's key, compared part by part with the nearest earlier one; of the "
        "persistent cache's key the parts whose hashes differ, by the hashes that JAX logs",
    ),
    "why": About(
        "Would this very call hit JAX's caches, and if not, what is new in it?",
        ours="the keys that JAX holds, compared part by part; nothing is traced",
    ),
}
"""By option and verb; a lens that is asked for otherwise stands under its verb."""
