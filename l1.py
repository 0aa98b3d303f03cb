%load_ext jaxlens
%jaxlens on
import os; os.environ["XLA_FLAGS"]="--xla_force_host_platform_device_count=4"
import sys; sys.path.insert(0, '/tmp/lm1b')
import jax, jax.numpy as jnp, numpy as np, time
# %%
from linen.build import build
# %%
step, state, batch = build(layers=2, emb=64, batch=8, length=32, mesh=(2,2,1), donate=False)
# %%
state, metrics = step(state, batch)
# %%
for i in range(3): state, metrics = step(state, batch)
# %%
b2 = {k: v[:, :16] for k, v in batch.items()} if isinstance(batch, dict) else batch; type(batch)
# %%
state, metrics = step(state, b2)
# %%
%explain
# %%
b3 = {k: np.asarray(v[:, :16]) for k, v in batch.items()}
state, metrics = step(state, b3)
# %%
%explain
# %%
step, state, batch = build(layers=2, emb=64, batch=8, length=32, mesh=(2,1,2), donate=False)
# %%
state, metrics = step(state, batch)
# %%
%explain
