"""Outside a kernel: plain scripts, with and without jax, forks, exits. tpulab never breaks them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from keeper_double import KeeperDouble


def run_script(code: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(code))
    base = {name: value for name, value in os.environ.items() if not name.startswith("TPULAB_")}
    return subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**base, **env},
        cwd=folder,
        check=False,
    )


WITHOUT_JAX = "import sys\nfor name in ('jax', 'IPython', 'ipykernel', 'numpy'): sys.modules[name] = None\n"


def test_a_script_without_jax_prints_one_line_to_stderr(tmp_path: Path) -> None:
    # A long loop prints more; this one may too, on a stalled machine.
    only_at_the_end = "from tpulab.agent import text_report\ntext_report.FIRST_LINE_NS = 10**15\n"
    done = run_script(
        WITHOUT_JAX
        + only_at_the_end
        + "import tpulab\nfor x in tpulab.steps([1, 2, 3], name='plain'): print(x)",
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "1\n2\n3\n")
    [line] = done.stderr.splitlines()
    assert line.startswith("[tpulab] plain: 3 steps in ")
    assert "device time unknown" in line


def test_many_short_loops_do_not_flood_the_text(tmp_path: Path) -> None:
    code = """
        import tpulab
        for epoch in range(300):
            for _ in tpulab.steps(range(2), name=f"epoch {epoch}"): pass
    """
    lines = run_script(code, tmp_path).stderr.splitlines()
    assert len(lines) == 20
    assert lines[-1].endswith("other short loops follow, one line in 5 s")


def test_the_text_can_be_silenced(tmp_path: Path) -> None:
    done = run_script("import tpulab\nfor x in tpulab.steps([1]): pass", tmp_path, TPULAB_TEXT="0")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_long_loop_prints_a_line_occasionally(tmp_path: Path) -> None:
    done = run_script(
        """
        import tpulab, time
        from tpulab.agent import text_report
        text_report.FIRST_LINE_NS = text_report.PERIOD_NS = 0
        for x in tpulab.steps(range(3), name='slow'): time.sleep(0.01)
        """,
        tmp_path,
    )
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert any("slow: step " in line and "/3" in line and "steps/s" in line for line in lines[:-1])
    assert "slow: 3 steps" in lines[-1]


def test_importing_the_package_imports_nothing_else(tmp_path: Path) -> None:
    done = run_script(
        "import sys\nbefore = set(sys.modules)\nimport tpulab\nprint(sorted(set(sys.modules) - before))",
        tmp_path,
    )
    assert done.stdout.strip() == "['tpulab']"


def test_jax_is_noticed_when_it_is_imported_later_and_when_it_was_imported_before(tmp_path: Path) -> None:
    for first, second in (("import tpulab; tpulab.status()", "import jax"), ("import jax", "import tpulab")):
        done = run_script(
            f"import sys\n{first}\n{second}\nimport jax.numpy as jnp, tpulab\n"
            "from tpulab.agent.process_agent import current_agent\nagent = current_agent()\n"
            "jax.jit(lambda x: x * 2)(jnp.ones(3))\nprint(agent.compiles.finished['<lambda>'][0])\n"
            "print(type(jax.__spec__.loader).__name__, 'exec_module' in vars(jax.__spec__.loader))\n"
            "print(any(getattr(finder, '_name', '') == 'jax' for finder in sys.meta_path))",
            tmp_path,
        )
        assert done.stdout.split() == ["1", "SourceFileLoader", "False", "False"], done.stderr


def test_a_jax_that_fails_to_import_fails_as_usual_and_may_be_tried_again(tmp_path: Path) -> None:
    package = tmp_path / "jax"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os\nif 'BROKEN' in os.environ: raise ImportError('broken')\n"
    )
    done = run_script(
        """
        import os, sys
        from tpulab.runtimes.import_hook import AfterImport
        loaded = []
        AfterImport('jax', lambda: loaded.append(1)).install()
        os.environ['BROKEN'] = '1'
        try:
            import jax
        except ImportError as error:
            print(error, loaded)
        del os.environ['BROKEN']
        import jax
        print(loaded)
        """,
        tmp_path,
    )
    assert done.stdout.splitlines() == ["broken []", "[1]"], done.stderr


def test_a_missing_module_stays_missing(tmp_path: Path) -> None:
    done = run_script(
        "from tpulab.runtimes.import_hook import AfterImport\n"
        "AfterImport('no_such_module', print).install()\n"
        "try:\n    import no_such_module\nexcept ModuleNotFoundError as e:\n    print(e.name)",
        tmp_path,
    )
    assert done.stdout == "no_such_module\n"


def test_a_forked_child_has_no_agent_and_the_parent_continues(tmp_path: Path, keeper: KeeperDouble) -> None:
    done = run_script(
        """
        import os, sys, tpulab
        for x in tpulab.steps(range(3), name='before'): pass
        child = os.fork()
        if child == 0:
            for x in tpulab.steps(range(3), name='child'): pass
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        for x in tpulab.steps(range(3), name='after'): pass
        """,
        tmp_path,
        TPULAB_AGENT_SOCKET=str(keeper.path),
    )
    assert (done.stdout, done.stderr) == ("7\n", "")
    keeper.wait(lambda: {"before", "after"} <= {run["name"] for run in keeper.ended_runs()}, "both runs")
    assert {run["name"] for run in keeper.of_type("run")} == {"before", "after"}
    assert keeper.connections == 1


def test_a_fork_during_the_first_use_in_another_thread_leaves_a_child_that_works(tmp_path: Path) -> None:
    # logging comes first: while a fork waits, its first import leaves its own fork handlers half called.
    done = run_script(
        """
        import logging, os, signal, sys, threading, time, tpulab
        importing = threading.Event()

        class Slow:
            def find_spec(self, name, *_):
                if name == 'tpulab.loops':
                    importing.set()
                    time.sleep(0.5)

        sys.meta_path.insert(0, Slow())
        thread = threading.Thread(target=lambda: tpulab.steps)
        thread.start()
        importing.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            for x in tpulab.steps(range(3)): pass
            os._exit(x)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        thread.join()
        """,
        tmp_path,
    )
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_a_fork_inside_a_loop_leaves_both_loops_whole(tmp_path: Path, keeper: KeeperDouble) -> None:
    done = run_script(
        """
        import os, sys, tpulab
        child = None
        count = 0
        for x in tpulab.steps(range(10), name='forks'):
            count += 1
            if x == 4:
                child = os.fork()
        if child == 0:
            os._exit(count)
        print(count, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        tmp_path,
        TPULAB_AGENT_SOCKET=str(keeper.path),
    )
    assert done.stdout == "10 10\n", done.stderr
    [end] = keeper.wait(lambda: keeper.ended_runs(), "the end of the run")
    assert len(keeper.steps(end["run"])) == 10


def test_a_script_that_ends_immediately_has_reported_everything(tmp_path: Path, keeper: KeeperDouble) -> None:
    done = run_script(
        """
        import jax, jax.numpy as jnp, tpulab
        step = jax.jit(lambda x: x @ x)
        x = jnp.ones((64, 64))
        for _ in range(20):
            with tpulab.step('blocks'):
                x = step(x)
        """,
        tmp_path,
        TPULAB_AGENT_SOCKET=str(keeper.path),
        JAX_PLATFORMS="cpu",
    )
    assert (done.returncode, done.stderr) == (0, "")
    [end] = keeper.wait(lambda: keeper.ended_runs(), "the end of the run")
    assert end["state"] == "finished"
    assert len(keeper.steps(end["run"])) == 20


def test_a_keeper_that_does_not_read_delays_neither_the_loop_nor_the_exit(tmp_path: Path) -> None:
    done = run_script(
        """
        import socket, tempfile, os, threading, time
        folder = tempfile.mkdtemp(prefix='tl-')
        path = os.path.join(folder, 's')
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        os.environ['TPULAB_AGENT_SOCKET'] = path
        import tpulab
        total = sum(tpulab.steps(range(100_000), name='unread'))
        print(total)
        """,
        tmp_path,
    )
    assert done.stdout == "4999950000\n"
    assert done.returncode == 0


def test_the_status_states_what_is_known_and_initialises_nothing(tmp_path: Path) -> None:
    done = run_script(
        """
        import tpulab, jax
        from jax._src import xla_bridge
        print(tpulab.status())
        print(xla_bridge.backends_are_initialized())
        jax.jit(lambda x: x + 1)(1.0)
        for _ in tpulab.steps([1, 2], name='two'): pass
        print(tpulab.status())
        """,
        tmp_path,
        JAX_PLATFORMS="cpu",
        JAX_NUM_CPU_DEVICES="8",
    )
    assert "unknown before the first use of jax\nFalse" in done.stdout
    assert "devices: 8 × cpu (jax " in done.stdout
    assert "run: two: 2 steps" in done.stdout
    assert "compiled: <lambda> × 1" in done.stdout


@pytest.mark.parametrize("stream", ["closed", "none"])
def test_a_stream_that_cannot_be_written_ends_nothing(tmp_path: Path, stream: str) -> None:
    change = "sys.stderr.close()" if stream == "closed" else "sys.stderr = None"
    done = run_script(f"import sys, tpulab\n{change}\nprint(list(tpulab.steps([1])))", tmp_path)
    assert done.stdout == "[1]\n"


@pytest.mark.parametrize(("flags", "count"), [("--xla_force_host_platform_device_count=5", 5), ("", 8)])
def test_the_users_number_of_cpu_devices_overrides_the_preset(flags: str, count: int, tmp_path: Path) -> None:
    """Case C07."""
    done = run_script(
        f"""
        import os
        import tpulab
        tpulab.status()
        os.environ['XLA_FLAGS'] = {flags!r}
        import jax
        print(jax.device_count())
        """,
        tmp_path,
        JAX_PLATFORMS="cpu",
        JAX_NUM_CPU_DEVICES="8",
        TPULAB_TEXT="0",
    )
    assert (done.returncode, done.stdout) == (0, f"{count}\n"), done.stderr
