"""The GPU runtime's list of thunks: which instruction launches which code, and how wide."""

from jaxlens.ir.machine.launches import Launch, read

SEQUENCE = """001: kCustomKernel [source       | next=002 (2)] add_fusion grid: [3, 2, 1] threads: [128, 1, 1]  shared_memory: 0 bytes
002: kWhile        [prev=001 (1) | next=006 (1)]   
condition:
    003: kCustomKernel [source | sink] compare_fusion grid: [1, 1, 1] threads: [1, 1, 1]  shared_memory: 0 bytes
  body:
    004: kCopy         [source       | next=005 (1)] kCopy
    005: kCustomKernel [prev=004 (1) | sink        ] sort_1 grid: [4000, 1, 1] threads: [64, 1, 1]  shared_memory: 1536 bytes
006: kCustomKernel [prev=002 (1) | sink        ] add_fusion grid: [3, 2, 1] threads: [128, 1, 1]  shared_memory: 0 bytes
"""  # noqa: E501, W291
KINDS = {
    "add_fusion": (1, "kCustomKernel"),
    "while.1": (2, "kWhile"),
    "compare_fusion": (3, "kCustomKernel"),
    "sort.1": (4, "kCopy"),
    "sort.1 ": (5, "kCustomKernel"),
    "add_fusion.1": (6, "kCustomKernel"),
}
METADATA = "".join(
    f'thunk_metadata {{\n  thunk_info {{\n    profile_annotation: "{name.strip()}"\n'
    f'    thunk_id: {number}\n  }}\n  thunk_kind: "{kind}"\n}}\n'
    for name, (number, kind) in KINDS.items()
)


def test_every_instruction_has_its_launches_in_order() -> None:
    result = read(SEQUENCE, METADATA)
    assert result["add_fusion.1"] == result["add_fusion"]
    assert result["add_fusion"][0].symbol == "add_fusion"
    assert result["while.1"] == (Launch("kWhile"),)
    copy, sort = result["sort.1"]
    assert (copy, sort.symbol, sort.shared) == (Launch("kCopy"), "sort_1", 1536)


def test_widths_in_words() -> None:
    result = read(SEQUENCE, METADATA)
    assert str(result["add_fusion"][0]) == "3 x 2 blocks of 128 threads"
    assert str(result["compare_fusion"][0]) == "1 block of 1 thread"
    assert str(result["sort.1"][1]) == "4,000 blocks of 64 threads, 1,536 B shared"
    assert str(result["while.1"][0]) == ""


def test_a_group_without_a_number_and_no_text_at_all() -> None:
    group = 'thunk_metadata { thunk_info { profile_annotation: "b" } thunk_kind: "kCommandBuffer" }'
    assert read(SEQUENCE, group) == {}
    assert read("", "") == {}
