"""Notebooks 00 to 04 in PyTorch on XLA:CPU and 06 to 08 on the host CPU, through the bridge, with their
results. `npm run test:torch` has 06 to 08 on XLA:CPU too."""

from __future__ import annotations

import math
import re

import pytest

from ..notebook_run import COMPILE_LESS, COMPILE_QUICKLY, Executed
from .conftest import STOP_IN_THE_FIRST_STEP, VOICES_BEFORE, WHOLE, Execute, compiled_in_steps, compiles

#: The loops of notebook 03 for which the agent has reported that each step waits for a value.
ADVISED = (
    "[name for name in found if __import__('tpulab.agent.process_agent', fromlist=['current_agent'])"
    ".current_agent().adviser.has_reported('sync-each-step', f'a mistake: {name}')]"
)


def binomial_band(n: int, p: float = 0.1, deviations: float = 5.0) -> tuple[float, float]:
    """The range of shares that guessing almost certainly gives."""
    spread = deviations * math.sqrt(p * (1 - p) / n)
    return max(0.0, p - spread), p + spread


class TestGettingStarted:
    @pytest.fixture(scope="class")
    @classmethod
    def lesson(cls, execute: Execute) -> Executed:
        names = ("compiled", "numbers", "tensors", "factors", "made", "refused")
        ask = {**{name: name for name in names}, "convolved": "convolved[7, 5, 10].item()"}
        return execute("00-getting-started-pytorch.ipynb", ask, COMPILE_LESS)

    def test_it_describes_its_backend_and_shows_eight_devices(self, lesson: Executed) -> None:
        first, *rest = lesson.text("devices").splitlines()
        assert re.match(r"torch_xla 2\.9\.0 on XLA:CPU", first)
        assert rest == [f"  device {number}: cpu" for number in range(8)]
        assert "application/vnd.jupyter.widget-view+json" in lesson.mime_types("monitor")

    def test_arithmetic_equals_paper(self, lesson: Executed) -> None:
        assert lesson.text("arithmetic").splitlines() == [
            "a + b = [[11.0, 22.0], [33.0, 44.0]]",
            "a * b = [[10.0, 40.0], [90.0, 160.0]]",
            "a @ b = [[70.0, 100.0], [150.0, 220.0]]",
        ]

    def test_the_convolution_equals_a_convolution_by_hand(self, lesson: Executed) -> None:
        shape, by_xla, by_hand = lesson.text("conv").splitlines()
        assert shape == "shape (20, 33, 48)"
        assert float(by_xla.split()[-1]) == pytest.approx(float(by_hand.split()[-1]), abs=2e-4)

    def test_gradients_can_be_checked_in_the_head(self, lesson: Executed) -> None:
        assert "[[15.0, 18.0, 21.0, 24.0, 27.0], [15.0, 18.0, 21.0, 24.0, 27.0]]" in lesson.text("linear")
        assert "[3.0, 3.0]" in lesson.text("linear")

    def test_compilations_are_as_the_text_states(self, lesson: Executed) -> None:
        compiled = lesson.values["compiled"]
        assert compiled["first"] >= 1
        assert compiled["shape"] >= 1
        assert compiled["item"] >= 2
        assert (compiled["again"], compiled["both"], compiled["item again"]) == (0, 0, 0)

    def test_each_new_exponent_is_a_program_but_a_tensor_or_a_factor_is_not(self, lesson: Executed) -> None:
        values = lesson.values
        assert (values["numbers"], values["tensors"], values["factors"]) == (3, 0, 0)

    def test_a_branch_on_a_value_breaks_a_graph_and_a_new_shape_is_a_new_one_or_refused(
        self, lesson: Executed
    ) -> None:
        assert lesson.values["made"] == {"whole": 1, "whole again": 0, "broken": 2, "shape": 1}
        assert "recompile" in lesson.values["refused"].lower()


@pytest.mark.long
class TestSingleCore:
    @pytest.fixture(scope="class")
    @classmethod
    def lesson(cls, execute: Execute, tmp_path_factory: pytest.TempPathFactory) -> Executed:
        ask = {
            "before": "before.accuracy",
            "after": "after.accuracy",
            "counted": "int((after.predicted == test.labels).sum()) / len(test)",
            "confusion": "after.confusion.sum(axis=1).tolist()",
            "losses": "[float(loss) for loss in losses]",
        }
        checkpoints = str(tmp_path_factory.mktemp("checkpoints"))
        return execute("01-single-core.ipynb", ask, COMPILE_LESS, checkpoints=checkpoints)

    def test_before_training_it_guesses(self, lesson: Executed) -> None:
        low, high = binomial_band(500)
        assert low <= lesson.values["before"] <= high

    def test_after_training_it_classifies_well_and_the_accuracy_is_a_plain_count(
        self, lesson: Executed
    ) -> None:
        assert lesson.values["after"] > 0.6
        assert lesson.values["after"] == lesson.values["counted"]
        assert lesson.values["confusion"] == [50] * 10

    def test_loss_falls_and_nothing_is_compiled_after_step_two(self, lesson: Executed) -> None:
        losses = lesson.values["losses"]
        assert len(losses) == 62
        assert sum(losses[-5:]) < 0.6 * sum(losses[:5])
        assert compiled_in_steps(lesson, "AlexNet on one core")[1:] == [0] * 60

    def test_pictures_and_controls_are_shown(self, lesson: Executed) -> None:
        for cell in ("data", "after", "predictions", "confusion"):
            assert "image/png" in lesson.mime_types(cell)
        assert lesson.mime_types("run") & {"application/vnd.jupyter.widget-view+json", "text/markdown"}


class TestMultiCore:
    @pytest.fixture(scope="class")
    @classmethod
    def lesson(cls, execute: Execute) -> Executed:
        ask = {
            "before": "before.accuracy",
            "after": "after.accuracy",
            "counted": "int((after.predicted == test.labels).sum()) / len(test)",
            "losses": "[float(loss) for loss in losses]",
            "equal": "equal",
            "devices": "world.global_devices",
            "pieces": "[list(piece.shape) for piece in backend.shards(batch['pixels'])]",
            "parts": "[each.parts for each in scaling]",
        }
        return execute("02-multi-core.ipynb", ask, COMPILE_LESS, scaling_parts=[1, 8], scaling_steps=1)

    def test_one_program_spans_eight_devices_and_divides_the_batch(self, lesson: Executed) -> None:
        assert lesson.values["devices"] == 8
        assert lesson.values["pieces"] == [[8, 28, 28]] * 8
        assert "63 rows cannot be divided among 8 parts" in lesson.text("shards")

    def test_it_learns_and_the_accuracy_is_exact_with_a_ragged_last_batch(self, lesson: Executed) -> None:
        low, high = binomial_band(500)
        assert low <= lesson.values["before"] <= high
        assert lesson.values["after"] > 0.6
        assert lesson.values["after"] == lesson.values["counted"]
        assert lesson.values["losses"][-1] < lesson.values["losses"][0]
        assert compiled_in_steps(lesson, "AlexNet on all cores")[1:] == [0] * 91

    def test_controls_are_shown(self, lesson: Executed) -> None:
        assert "application/vnd.jupyter.widget-view+json" in lesson.mime_types("run")

    def test_replicas_are_equal_after_training(self, lesson: Executed) -> None:
        assert lesson.values["equal"] is True

    def test_scaling_is_measured_for_each_number_of_parts(self, lesson: Executed) -> None:
        assert lesson.values["parts"] == [1, 8]

    def test_two_processes_hold_all_parameters_or_half_of_them_and_compute_the_same(
        self, lesson: Executed
    ) -> None:
        found = [
            re.fullmatch(r"(\w+): loss ([\d.]+ to [\d.]+), ([\d,]+) parameters in each of 2", line)
            for line in lesson.lines("processes")
        ]
        (ddp, all_losses, whole), (fsdp, own_losses, slices) = (each.groups() for each in found if each)
        assert (ddp, fsdp, all_losses) == ("DDP", "FSDP", own_losses)
        first, last = map(float, all_losses.split(" to "))
        assert last < 0.9 * first
        # A bias of an odd length is not divided evenly: the first process has the longer part.
        assert int(slices.replace(",", "")) == pytest.approx(int(whole.replace(",", "")) / 2, rel=0.01)


@pytest.mark.long
class TestProfiling:
    @pytest.fixture(scope="class")
    @classmethod
    def lesson(cls, execute: Execute, tmp_path_factory: pytest.TempPathFactory) -> Executed:
        ask = {
            "steps": "len(profile.step_ms)",
            "slow_input": "[slow_profile.input_ms, sum(slow_profile.between_ms)]",
            "slow_waits_ms": "1e3 * slow_input_s * (len(slow_profile.step_ms) - 1)",
            "operations": "[operation.name for operation in profile.operations[:10]]",
            "found": "found",
            "losses": "[float(loss) for loss in losses]",
            "advised": ADVISED,
        }
        folder = str(tmp_path_factory.mktemp("traces"))
        steps = {"mistake_steps": 6, "waiting_steps": 100}  # on a busy machine fewer of them have to wait
        return execute("03-profiling.ipynb", ask, COMPILE_QUICKLY, trace_folder=folder, **steps)

    def test_the_capture_has_the_steps_that_were_requested(self, lesson: Executed) -> None:
        assert lesson.values["steps"] == 5
        assert lesson.text("summary").startswith("5 steps of")
        assert any("conv" in name for name in lesson.values["operations"])
        assert "xplane.pb" in lesson.text("files")

    def test_loss_falls_and_nothing_is_compiled_after_step_two(self, lesson: Executed) -> None:
        assert lesson.values["losses"][-1] < lesson.values["losses"][0]
        assert compiled_in_steps(lesson, "ResNet18")[1:] == [0] * 18

    def test_each_mistake_shows_in_its_profile(self, lesson: Executed) -> None:
        found = lesson.values["found"]
        assert found["slow-input"]["step_ms"] >= 300
        assert {name: figures["compiled"] for name, figures in found.items()} == {
            "none": 0,
            "slow-input": 0,
            "sync-each-step": 0,
            "changing-shapes": 2,
        }

    def test_the_profile_of_the_slow_input_shows_its_waits_in_the_row_for_input(
        self, lesson: Executed
    ) -> None:
        waited, between = lesson.values["slow_input"]
        assert lesson.values["slow_waits_ms"] == pytest.approx(4 * 300)
        # At least the sleep of the loader (1 %: another clock), at most the time between the steps.
        assert 0.99 * lesson.values["slow_waits_ms"] <= waited <= between
        for cell in ("summary", "slow-input"):
            rows = [line.split()[0] for line in lesson.lines(cell)[1:6]]
            assert rows == ["input", "compile", "execute", "gap", "between"]

    def test_each_loop_prints_the_split_that_the_panel_shows(self, lesson: Executed) -> None:
        panel = [line.split("the panel: ")[1] for line in lesson.lines("mistakes") if "the panel: " in line]
        assert len(panel) == 4
        assert all(re.fullmatch(r"[\d.e+]+ ms/step \(.*\)", line) for line in panel)
        shares = [{name: int(share) for name, share in re.findall(r"(\w+) (\d+)%", line)} for line in panel]
        inputs = [each.get("input", 0) for each in shares]
        assert inputs[1] == max(inputs)
        assert ["compile" in each for each in shares] == [False, False, False, True]

    def test_the_panel_states_which_loop_waits_for_a_value_in_each_step(self, lesson: Executed) -> None:
        assert lesson.values["advised"] == ["sync-each-step"]


EPOCHS = 6
#: Settings of notebook 04 that need no network.
SMALL: dict[str, object] = {"model_name": "", "epochs": EPOCHS, "learning_rate": 1e-3}
#: Batches of 32 of 1,800 sentences.
IN_EPOCH = 56


@pytest.mark.long
class TestFineTune:
    @pytest.fixture(scope="class")
    @classmethod
    def checkpoints(cls, tmp_path_factory: pytest.TempPathFactory) -> str:
        return str(tmp_path_factory.mktemp("checkpoints"))

    @pytest.fixture(scope="class")
    @classmethod
    def lesson(cls, execute: Execute, checkpoints: str) -> Executed:
        ask = {
            "before": "before.weighted_f1",
            "after": "after.weighted_f1",
            "accuracy": "after.accuracy",
            "predicted": "after.predicted.tolist()",
            "labels": "after.labels.tolist()",
            "losses": "[float(loss) for loss in losses]",
            "same": "same",
            "length": "length",
            "pieces": "[list(piece.shape) for piece in backend.shards(batch['input_ids'])]",
            "equal": "all(len({piece.tobytes() for piece in backend.shards(parameter)}) == 1"
            " for parameter in trainer.model.parameters())",
            "accelerated": "[accelerated.losses[0], accelerated.losses[-1], accelerated.device_kind]",
            "accelerated_steps": "[len(accelerated.losses), accelerate_run.step_index]",
        }
        # From random weights, which need no download; `npm run test:real` trains the pretrained encoder.
        return execute(
            "04-bert-fine-tune.ipynb", ask, COMPILE_LESS, checkpoints=checkpoints, all_devices=True, **SMALL
        )

    def test_it_learns_some_of_what_definitions_define(self, lesson: Executed) -> None:
        assert lesson.values["before"] < 0.06
        assert lesson.values["after"] > 0.1
        losses = lesson.values["losses"]
        assert sum(losses[-5:]) < 0.95 * sum(losses[:5])

    def test_steps_compile_nothing_and_the_evaluation_after_training_one_program(
        self, lesson: Executed
    ) -> None:
        compiled = compiled_in_steps(lesson, "BERT")
        assert len(compiled) == EPOCHS * IN_EPOCH - 1
        # The evaluation is between the last step of an epoch and the first one of the next.
        assert {step for step, count in enumerate(compiled, start=2) if count} <= {2, IN_EPOCH + 1}
        assert compiled[IN_EPOCH - 1] <= 1

    def test_the_score_is_the_hand_count(self, lesson: Executed) -> None:
        predicted, labels = lesson.values["predicted"], lesson.values["labels"]
        total = 0.0
        for intent in set(labels):
            hits = sum(a == b == intent for a, b in zip(predicted, labels, strict=True))
            found, there = predicted.count(intent), labels.count(intent)
            total += there * (2 * hits / (found + there) if found + there else 0.0)
        assert lesson.values["after"] == pytest.approx(total / len(labels))
        assert lesson.values["accuracy"] == sum(a == b for a, b in zip(predicted, labels, strict=True)) / len(
            labels
        )

    def test_eight_devices_share_each_batch_and_keep_equal_parameters(self, lesson: Executed) -> None:
        assert "one program over 8 devices" in lesson.text("data")
        assert lesson.values["pieces"] == [[4, lesson.values["length"]]] * 8
        assert lesson.values["equal"] is True

    def test_the_length_comes_from_the_data(self, lesson: Executed) -> None:
        assert lesson.values["length"] == 32

    def test_a_checkpoint_reads_the_test_the_same_way(self, lesson: Executed) -> None:
        assert lesson.values["same"] is True

    def test_accelerate_trains_on_the_same_device(self, lesson: Executed) -> None:
        first, last, kind = lesson.values["accelerated"]
        assert last < first
        assert kind == "XLA"
        assert lesson.values["accelerated_steps"] == [14, 14]

    def test_one_device_resumes_from_the_checkpoint_of_eight_and_may_be_stopped_in_the_first_step(
        self, lesson: Executed, execute: Execute, checkpoints: str
    ) -> None:
        ask = {
            "before": "before.weighted_f1",
            "steps": "len(losses)",
            "done": "trainer.steps_done",
        }
        resumed = execute(
            "04-bert-fine-tune.ipynb",
            ask,
            COMPILE_QUICKLY + STOP_IN_THE_FIRST_STEP,
            checkpoints=checkpoints,
            resume=True,
            all_devices=False,
            with_accelerate=False,
            **SMALL | {"epochs": EPOCHS + 1},
        )
        done = EPOCHS * IN_EPOCH
        assert f"going on after step {done}" in resumed.text("model")
        before = lesson.values["after"]
        assert resumed.values | {"before": before, "steps": 1, "done": done + 1} == resumed.values
        assert len(resumed.values["compilations_after"]["BERT"]) == 1


class TestDia:
    @pytest.fixture(scope="class")
    @classmethod
    def lesson(cls, execute: Execute, tmp_path_factory: pytest.TempPathFactory) -> Executed:
        ask = {
            "clips": "len(clips)",
            "losses": "[float(loss) for loss in losses]",
            "sampled": "sorted(samples)",
            "seconds": "len(sound_of(ours)) / codec.sample_rate",
            "frames": "len(ours)",
            "spoken": "max(float(np.mean(ours.numpy()[: len(clip.codes)] == clip.codes[: len(ours)]))"
            " for clip in pair)",
            "voices": "[float(np.mean(rest.numpy()[:40] == clip.codes[len(prompt):][:40]))"
            " for rest in said for clip, prompt in zip(pair, prompts)]",
            "exported": "bool(codes.shape == ours.shape and (codes == ours).all())",
        }
        folder = str(tmp_path_factory.mktemp("dia"))
        return execute("06-dia.ipynb", ask, COMPILE_LESS + VOICES_BEFORE, output_folder=folder)

    def test_it_learns_its_clips_by_heart(self, lesson: Executed) -> None:
        losses = lesson.values["losses"]
        assert lesson.values["clips"] == 8
        assert len(losses) == 120
        assert losses[0] == pytest.approx(math.log(68), rel=0.1)
        assert losses[-1] < 0.3
        assert lesson.values["sampled"] == [0, 60, 120]
        # From the text alone, without a prompt, it speaks that sentence in one of the two voices.
        assert lesson.values["spoken"] > 0.9
        # Given the beginning of a clip, it writes the rest of that clip.
        as_anna, _, _, as_ben = lesson.values["voices"]
        assert min(as_anna, as_ben) > 0.9

    def test_the_prompt_decides_whose_voice_continues(self, lesson: Executed) -> None:
        like_anna_as_anna, like_ben_as_anna, like_anna_as_ben, like_ben_as_ben = lesson.values["voices"]
        assert like_anna_as_anna > 2 * like_ben_as_anna
        assert like_ben_as_ben > 2 * like_anna_as_ben

    @compiles
    def test_samples_compile_nothing(self, lesson: Executed) -> None:
        assert set(compiled_in_steps(lesson, "Dia")[1:]) == {0}

    def test_transformers_generates_the_same(self, lesson: Executed) -> None:
        assert lesson.values["exported"] is True
        assert lesson.values["seconds"] == pytest.approx(lesson.values["frames"] / 50)

    def test_players_and_pictures_are_shown(self, lesson: Executed) -> None:
        # The training updates the displays of its rows: a reader sees a player for each sample.
        for cell, players in {"data": 2, "codec": 3, "clone": 4, "export": 1}.items():
            shown = "".join(
                output.data.get("text/html", "") for output in lesson.cell(cell).outputs if "data" in output
            )
            assert shown.count("<audio controls") == players, cell
        assert "<audio controls" in str(lesson.cell("training").outputs)
        assert "image/png" in lesson.mime_types("delay")


class TestGptSovits:
    @pytest.fixture(scope="class")
    @classmethod
    def lesson(cls, execute: Execute, tmp_path_factory: pytest.TempPathFactory) -> Executed:
        ask = {
            "clips": "[len(train_clips), len(held_out)]",
            "losses": "losses",
            "sampled": "sorted(samples)",
            "flow": "float((back - z).abs().max())",
            "exchanged": "[same, largest]",
            "seconds": "[len(heard[title]) / config.sampling_rate for title in ('own voice', 'converted')]",
            "source": "len(source.wav) / config.sampling_rate",
        }
        # Fewer steps and layers than in the lesson: its learning has a separate test
        # (recipes/tests/gpt_sovits).
        few = {
            "steps": 12,
            "sample_every": 6,
            "settings": {"periods": (2,), "resblock_dilation_sizes": ((1,),), "posterior_layers": 1},
        }
        folder = str(tmp_path_factory.mktemp("sovits"))
        before = COMPILE_QUICKLY + VOICES_BEFORE
        return execute("07-gpt-sovits.ipynb", ask, before, output_folder=folder, **few)

    def test_both_networks_learn(self, lesson: Executed) -> None:
        losses = lesson.values["losses"]
        assert lesson.values["clips"] == [32, 4]
        assert len(losses) == 12
        assert all(math.isfinite(value) for each in losses for value in each.values())
        assert losses[-1]["mel"] < losses[0]["mel"]

    @compiles
    def test_nothing_compiles_after_the_first_step(self, lesson: Executed) -> None:
        assert set(compiled_in_steps(lesson, "GPT-SoVITS")) == {0}

    def test_samples_the_flow_and_checkpoints_are_as_the_text_states(self, lesson: Executed) -> None:
        assert lesson.values["sampled"] == [0, 6, 12]
        assert lesson.values["flow"] < 1e-4
        same, largest = lesson.values["exchanged"]
        assert same is True
        assert largest < 5e-3
        for seconds in lesson.values["seconds"]:
            assert seconds == pytest.approx(lesson.values["source"], abs=0.05)

    def test_players_and_pictures_are_shown(self, lesson: Executed) -> None:
        for cell in ("data", "training", "convert"):
            shown = "".join(
                output.data.get("text/html", "") for output in lesson.cell(cell).outputs if "data" in output
            )
            assert "<audio controls" in shown
        for cell in ("tokens", "curve"):
            assert "image/png" in lesson.mime_types(cell)


@pytest.mark.long
class TestEnglishTts:
    @pytest.fixture(scope="class")
    @classmethod
    def lesson(cls, execute: Execute, tmp_path_factory: pytest.TempPathFactory) -> Executed:
        ask = {
            "losses": "losses",
            "words": "[share, limit]",
            "late": "late",
            "stopped": "all(each.stopped for each in spoken)",
            "profiled": "[profile[name] for name in ('total_batch_count', 'total_batch_total_s',"
            " 'data_loading_total_s')]",
            "clock": "[clock.steps, clock.wall / 1e9, clock.input / 1e9]",
            "both": "[both['float32']['mel'], both['bfloat16']['mel']]",
            "same": "all(bool((a.cpu() == b).all()) for a, b in"
            " zip(trainer.model.state_dict().values(), model.state_dict().values()))",
        }
        # Fewer steps and sentences than in the lesson, unless the whole lesson is run.
        few: dict[str, object] = {"settings": {"num_epochs": 6, "corpus_count": 60}, "sample_every": 18}
        folder = str(tmp_path_factory.mktemp("voice"))
        return execute(
            "08-english-tts.ipynb",
            ask,
            COMPILE_LESS + VOICES_BEFORE,
            output_folder=folder,
            person_folder=f"{folder}/voice",  # the lesson's own: it has the sounds of that sentence
            **({} if WHOLE else few),
        )

    def test_it_learns_and_true_spectrograms_are_recognised(self, lesson: Executed) -> None:
        _, limit = lesson.values["words"]
        assert limit > 0.85
        assert lesson.values["losses"][-1] < 0.6 * lesson.values["losses"][0]

    @pytest.mark.skipif(not WHOLE, reason="`npm run test:lessons` trains it to its end")
    def test_it_speaks_held_out_sentences_so_that_their_words_are_recognised(self, lesson: Executed) -> None:
        assert lesson.values["words"][0] >= 0.7
        assert lesson.values["losses"][-1] < 0.4 * lesson.values["losses"][0]

    @pytest.mark.skipif(not WHOLE, reason="`npm run test:lessons` trains it to its end")
    def test_stop_tokens_end_it_within_three_frames(self, lesson: Executed) -> None:
        assert lesson.values["stopped"] is True
        assert max(map(abs, lesson.values["late"])) <= 3

    def test_profiler_and_step_clock_agree(self, lesson: Executed) -> None:
        assert lesson.values["profiled"] == pytest.approx(lesson.values["clock"], rel=1e-6)
        assert lesson.values["clock"][0] == len(lesson.values["losses"])

    @compiles
    def test_samples_compile_nothing_after_the_first(self, lesson: Executed) -> None:
        assert set(compiled_in_steps(lesson, "English voice")[1:]) == {0}

    def test_bfloat16_measures_the_same_voice_and_the_export_equals_it(self, lesson: Executed) -> None:
        full, half = lesson.values["both"]
        assert half == pytest.approx(full, rel=0.05)
        assert half != full
        assert lesson.values["same"] is True

    def test_players_and_pictures_are_shown(self, lesson: Executed) -> None:
        for cell in ("spectrogram", "regulator", "after"):
            assert "image/png" in lesson.mime_types(cell)
        shown = "".join(
            output.data.get("text/html", "") for output in lesson.cell("own").outputs if "data" in output
        )
        assert shown.count("<audio controls") == 2
        person = lesson.cell("person").outputs[-1].data["text/html"]
        assert person.count("<audio controls") == 4
        assert "before training" in person
