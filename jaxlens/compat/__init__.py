"""All uses of JAX's private API, one subject per file, with the fallback when it is gone.

Tested with jax 0.10.2 and 0.12.0.1. Each docstring has a sentence "Gone: ..." that says what is
lost when the private name no longer exists; no function raises for that reason. Public JAX is
imported directly where it is used.
"""

from jaxlens.compat.arrays import base_array, content, fresh, is_ref, made_in
from jaxlens.compat.calls_heard import hear_calls
from jaxlens.compat.disk_cache import disk_key, persistent_cache_off
from jaxlens.compat.extend import extend, mlir_bindings
from jaxlens.compat.jit_caches import (
    context_names,
    every_trace_key,
    is_compiled,
    lower_keys,
    resolved_shardings,
    signature_tree,
    static_values,
    trace_key,
    trace_keys,
    traced_program,
)
from jaxlens.compat.jitted import (
    handed_over,
    inner_jit,
    is_wrapper,
    jit_parts,
    layers,
    rejit,
)
from jaxlens.compat.lowering import hlo as hlo_computation
from jaxlens.compat.lowering import hlo_text, lower_for
from jaxlens.compat.plugins import (
    cuda_plugin_version,
    has_cuda_plugin,
    has_idle_tpu_plugin,
    load_pallas_runtime,
    register_cuda,
    take_session,
)
from jaxlens.compat.program_text import (
    compiled,
    from_hlo,
    to_hlo,
    to_stablehlo,
)
from jaxlens.compat.scheduled_hlo import replaced_when_scheduled, stopped_when_scheduled
from jaxlens.compat.scopes import (
    Called,
    called_within,
    named_last,
    naming,
    scope_names,
)
from jaxlens.compat.settings import apart, context_value, is_apart, settings_here
from jaxlens.compat.stage_objects import (
    argument_names,
    argument_places,
    as_traced,
    bytecode,
    devices_of,
    kept_arguments,
    options_of,
    own_copy,
)
from jaxlens.compat.tracing import (
    hide_frames_of_jax,
    leaked_tracers,
    origin,
    recorded,
    shardings_within,
    stack_before_transform,
    varying_axes,
    whole_tracebacks,
)
from jaxlens.compat.transformed import (
    UNNAMED,
    attribute,
    computes,
    differentiated,
    is_checkpoint,
    pmapped,
    settings,
    transform_name,
    wrapped,
)
from jaxlens.compat.waits import mark_waits
