"""Two gathers of one channel, as a `shard_map` has them, before and after libtpu splits them.

Each becomes three fusions: the first starts it, the second computes a sine beside it, the third
waits for its end. Each has the gather, and hands its operand, its result and a flag on to the next.
"""

_SENT = "channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true"

BEFORE = f"""\
HloModule step, num_partitions=4

ENTRY main (p: f32[4], q: f32[8], y: f32[16]) -> (f32[16], f32[32], f32[16], f32[16]) {{
  p = f32[4]{{0}} parameter(0)
  q = f32[8]{{0}} parameter(1)
  y = f32[16]{{0}} parameter(2)
  gather.p = f32[16]{{0}} all-gather(p), {_SENT}
  gather.q = f32[32]{{0}} all-gather(q), {_SENT}
  sine = f32[16]{{0}} sine(y)
  cosine = f32[16]{{0}} cosine(y)
  ROOT out = (f32[16], f32[32], f32[16], f32[16]) tuple(gather.p, gather.q, sine, cosine)
}}
"""

_FUSIONS = f"""
start.X (a.X: f32[N]) -> (f32[N], f32[M], u32[]) {{
  a.X = f32[N]{{0:S(1)}} parameter(0)
  gather.X.1 = f32[M]{{0}} all-gather(a.X), {_SENT}
  ROOT go.X = (f32[N]{{0:S(1)}}, f32[M]{{0}}, u32[]{{:S(2)}}) custom-call(gather.X.1), TARGETStart"
}}

beside.X (b.X: f32[N], r.X: f32[M], f.X: u32[], y.X: f32[16]) -> (f32[16], f32[N], f32[M], f32[M], u32[]) {{
  b.X = f32[N]{{0:S(1)}} parameter(0)
  r.X = f32[M]{{0}} parameter(1)
  f.X = u32[]{{:S(2)}} parameter(2)
  y.X = f32[16]{{0}} parameter(3)
  wave.X = f32[16]{{0}} WAVE(y.X)
  gather.X.2 = f32[M]{{0}} all-gather(b.X), {_SENT}
  ROOT on.X = (f32[16]{{0}}, f32[N]{{0:S(1)}}, f32[M]{{0}}, f32[M]{{0}}, u32[]{{:S(2)}}) tuple(wave.X, b.X, r.X, gather.X.2, f.X)
}}

done.X (c.X: f32[N], s.X: f32[M], g.X: u32[]) -> f32[M] {{
  c.X = f32[N]{{0:S(1)}} parameter(0)
  s.X = f32[M]{{0}} parameter(1)
  g.X = u32[]{{:S(2)}} parameter(2)
  gather.X.3 = f32[M]{{0}} all-gather(c.X), {_SENT}
  ROOT end.X = f32[M]{{0}} custom-call(c.X, s.X, gather.X.3, g.X), TARGETDone"
}}
"""  # noqa: E501
_CALLS = """\
  first.X = (f32[N]{0:S(1)}, f32[M]{0}, u32[]{:S(2)}) fusion(FROM), kind=kCustom, calls=start.X
  first.X.0 = f32[N]{0:S(1)} get-tuple-element(first.X), index=0
  first.X.1 = f32[M]{0} get-tuple-element(first.X), index=1
  first.X.2 = u32[]{:S(2)} get-tuple-element(first.X), index=2
  next.X = (f32[16]{0}, f32[N]{0:S(1)}, f32[M]{0}, f32[M]{0}, u32[]{:S(2)}) fusion(first.X.0, first.X.1, first.X.2, y), kind=kLoop, calls=beside.X
  next.X.0 = f32[16]{0} get-tuple-element(next.X), index=0
  next.X.1 = f32[N]{0:S(1)} get-tuple-element(next.X), index=1
  next.X.2 = f32[M]{0} get-tuple-element(next.X), index=2
  next.X.4 = u32[]{:S(2)} get-tuple-element(next.X), index=4
  last.X = f32[M]{0} fusion(next.X.1, next.X.2, next.X.4), kind=kCustom, calls=done.X
"""  # noqa: E501


def _written(text: str) -> str:
    """Returns the text for both gathers, of 16 and of 128 bytes of each device."""
    text = text.replace("TARGET", 'custom_call_target="AsyncCollective')
    ways = (("p", "4", "16", "sine"), ("q", "8", "32", "cosine"))
    return "".join(
        text.replace("X", name).replace("N]", f"{n}]").replace("M]", f"{m}]").replace("WAVE", wave)
        for name, n, m, wave in ways
    )


AFTER = (
    "HloModule step, is_scheduled=true, num_partitions=4\n"
    + _written(_FUSIONS)
    + """
ENTRY main (p: f32[4], q: f32[8], y: f32[16]) -> (f32[16], f32[32], f32[16], f32[16]) {
  p = f32[4]{0} parameter(0)
  q = f32[8]{0} parameter(1)
  y = f32[16]{0} parameter(2)
  copy.p = f32[4]{0:S(1)} copy(p)
  copy.q = f32[8]{0:S(1)} copy(q)
"""
    + _written(_CALLS.replace("FROM", "copy.X"))
    + """\
  ROOT out = (f32[16], f32[32], f32[16], f32[16]) tuple(last.p, last.q, next.p.0, next.q.0)
}
"""
)
