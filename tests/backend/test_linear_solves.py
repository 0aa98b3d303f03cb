"""Solvers of JAX keep their jaxprs in a named tuple: the one that runs is linked and counted."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax.scipy.linalg import expm
from jax.scipy.sparse.linalg import cg, gmres

import jaxlens
from jaxlens.links.live_equations import live_equations
from jaxlens.program.counted import facts

pytestmark = pytest.mark.backend

A = jax.ShapeDtypeStruct((16, 16), "float32")
B = jax.ShapeDtypeStruct((16,), "float32")


def conjugate_gradient(a, b):
    return cg(lambda v: a @ v, b)[0]


def residual(a, b):
    return gmres(lambda v: a @ v, b, restart=4)[0]


PROGRAMS = {
    "inverse": (lambda a: jnp.linalg.inv(a), (A,)),  # a line of its own: JAX's own are nobody's
    "solve": (lambda a, b: jnp.linalg.solve(a, b), (A, B)),
    "grad of solve": (jax.grad(lambda a, b: jnp.linalg.solve(a, b).sum(), (0, 1)), (A, B)),
    "exponential": (lambda a: expm(a), (A,)),
    "conjugate gradient": (conjugate_gradient, (A, B)),
    "gmres": (residual, (A, B)),
}


@functools.cache
def captured(name):
    f, args = PROGRAMS[name]
    return jaxlens.capture(f, *args)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_equation_that_a_result_depends_on_has_ops_and_one_for_derivatives_none(name):
    capture = captured(name)
    module = capture.jaxpr.module
    depends = live_equations(module)
    lowered = {node.id for node in module.nodes() if capture.links.forward(node.id, "stablehlo")}
    without_ops = {node.opcode for node in module.nodes() if node.id in depends - lowered}
    assert not without_ops & {
        "mul",
        "dot_general",
        "add",
        "sub",
        "div",
        "while",
        "triangular_solve",
    }
    stray = [node.opcode for node in module.nodes() if node.id in lowered - depends]
    # What is dead in the body of a while loop is lowered with it.
    assert not stray or (name == "gmres" and "dot_general" not in stray)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_body_that_runs_is_lowered(name):
    capture = captured(name)
    module = capture.jaxpr.module
    depends = live_equations(module)
    solves = [n for n in module.nodes() if n.opcode == "custom_linear_solve" and n.id in depends]
    assert solves
    for solve in solves:
        matvec, *_ = solve.regions
        runs = solve.attrs["jaxprs"].partition(" solve=")[2].partition(", transpose_solve")[0]
        assert any(node.id in depends for node in module.regions[runs].nodes)
        if runs != matvec:
            inside = {node.id for node in module.regions[matvec].nodes}
            assert "grad" in name or not inside & depends


def test_flops_of_an_iteration_are_those_of_xla():
    """Both count the body of a loop of unknown length once."""
    capture = captured("conjugate gradient")
    assert facts(capture).counted == pytest.approx(capture.cost["flops"], rel=0.02)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_line_and_every_fate_is_known(name):
    coverage = captured(name).links.coverage()
    assert coverage.equations > 0.99
    assert coverage.instructions > 0.9
