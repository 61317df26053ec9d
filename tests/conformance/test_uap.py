"""The map of UAP-1.0: which tests show each fact, reading and MUST, by their numbers in the reference, and in which host.

Facts are what upstream's own tests assert. Where one contradicts the specification (15: no error at the loop's limit; 17:
`on_act` outside of react; 69: no `on_error` in a run), the specification wins, and its test shows that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import pytest

from perdure import agent
from perdure.execution import loop
from perdure.upp import AssistantMessage, ToolResultMessage, ToolUseStrategy, Turn, UserMessage, llm
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import scripted
from tests.conformance.test_uap_strategies import play
from tests.conformance.uap_reading_scenarios import READING_SCENARIOS
from tests.conformance.uap_scenarios import FAIL, INPUT, LOOK, SCENARIOS, Scenario, check_scenario, fail, look
from tests.conformance.uap_streams import turn_json
from tests.mutations import Mutation, read_mutations

TESTS = Path(__file__).parents[1]
ALL_SCENARIOS = {scenario.name: scenario for scenario in [*SCENARIOS, *READING_SCENARIOS]}


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Which tests show something, each as `file::the beginning of its name`, with the hosts that they drive.

    Attributes:
        both: tests that drive both hosts, or compare them.
        host_free: tests of what is the same wherever it is: data, and what is looked at when an agent is defined.
        scenarios: names of scenarios; each is run in both hosts, by `run` and by `stream`.
    """

    in_process: Sequence[str] = ()
    durable: Sequence[str] = ()
    both: Sequence[str] = ()
    host_free: Sequence[str] = ()
    scenarios: Sequence[str] = ()

    @property
    def tests(self) -> list[str]:
        """Every test that is named."""
        return [test for item in fields(self) if item.name != "scenarios" for test in getattr(self, item.name)]

    @property
    def in_both_hosts(self) -> bool:
        """Whether nothing is left to one host."""
        return bool(self.both or self.host_free or self.scenarios or (self.in_process and self.durable))


def by_scenario(fact: int, **more: Sequence[str]) -> Shown:
    """The scenarios that say they show a fact."""
    names = [name for name, scenario in ALL_SCENARIOS.items() if str(fact) in scenario.facts.split()]
    return Shown(scenarios=names, **more)


AGENTS = "conformance/test_uap_agents"
AGENTS_BELOW = "conformance/test_uap_sub_agents"
RUNS_BELOW = "conformance/test_uap_sub_agent_runs"
LIMITS_BELOW = "conformance/test_uap_sub_agent_limits"
CUSTOM = "conformance/test_uap_custom"
MIDDLEWARE = "conformance/test_uap_middleware"
SESSIONS = "conformance/test_uap_sessions"
DOCUMENTS = "conformance/test_uap_session_documents"
TREES = "conformance/test_uap_thread_trees"
STRATEGIES = "conformance/test_uap_strategies"
STREAMING = "conformance/test_uap_streaming"
DURABLE_CUSTOM = "integration/test_custom_strategies"
DURABLE_MIDDLEWARE = "integration/test_middleware"
DURABLE_SCENARIOS = "integration/test_uap_scenarios_more"
DURABLE_SESSIONS = "integration/test_durable_sessions"
DURABLE_DOCUMENTS = "integration/test_durable_session_documents"
DURABLE_SHOWN = "integration/test_durable_session_shown"
DURABLE_ASKS = "integration/test_durable_asks"
DURABLE_TREES = "integration/test_durable_trees"
DURABLE_STREAMS = "integration/test_streams"
SUB_AGENTS = "integration/test_sub_agents"

SAME_EVENTS = f"{DURABLE_STREAMS}::both_hosts_tell_the_same"
SAME_TURN = "integration/test_runs::both_hosts_give_the_same_turn"
SAME_STORY = f"{DURABLE_SESSIONS}::a_story_comes_to_the_same_in_both_hosts"
"""Sessions with branches, merges, restores and streams: what is said in each node, and each checkpoint."""
SAME_HOOKS = f"{DURABLE_MIDDLEWARE}::hooks_are_called_in_the_order_of_the_in_process_host"
SAME_AS_A_STREAM = f"{DURABLE_SCENARIOS}::facts_42_43_66"


def tree(*tests: str) -> Shown:
    """Thread trees are data."""
    return Shown(host_free=[f"{TREES}::{test}" for test in tests])


def logged(fact: str) -> Shown:
    """What `logging` writes."""
    return Shown(in_process=[f"{MIDDLEWARE}::{fact}"], both=[f"{DURABLE_SCENARIOS}::facts_49_to_54"])


LATER = "upstream's later versions only; the draft does not have it"
FACTS: Mapping[int, Shown | str] = {
    1: Shown(host_free=[f"{AGENTS}::fact_1"]),
    2: Shown(host_free=[f"{AGENTS}::fact_2"]),
    3: Shown(in_process=[f"{AGENTS}::fact_3"], durable=[f"{DURABLE_SCENARIOS}::fact_03"]),
    4: Shown(in_process=[f"{STRATEGIES}::65_on_complete", f"{CUSTOM}::4_run_returns_the_very_turn"], both=[SAME_TURN]),
    5: Shown(in_process=[f"{AGENTS}::fact_5"], durable=[f"{DURABLE_SCENARIOS}::fact_05"]),
    6: Shown(
        in_process=[f"{CUSTOM}::5_5_the_example_runs", f"{CUSTOM}::6_and_8"],
        durable=[f"{DURABLE_CUSTOM}::the_specifications_example_runs"],
    ),
    7: Shown(
        in_process=[f"{STREAMING}::fact_07"],
        durable=[
            f"{DURABLE_STREAMS}::a_turn_needs_no_iteration",
            f"{DURABLE_STREAMS}::aborting_before_reading_submits_nothing",
        ],
    ),
    8: Shown(
        in_process=[f"{STREAMING}::fact_08", f"{CUSTOM}::6_and_8"],
        durable=[f"{DURABLE_CUSTOM}::a_stream_has_exactly_the_strategys_events"],
        both=[SAME_EVENTS],
    ),
    9: LATER,
    10: LATER,
    11: LATER,
    12: by_scenario(12),
    13: by_scenario(13, host_free=[f"{STRATEGIES}::13_22_32"]),
    14: by_scenario(14),
    15: by_scenario(15),
    16: by_scenario(16),
    17: by_scenario(17),
    18: by_scenario(18),
    19: by_scenario(19, in_process=[f"{STRATEGIES}::19"]),
    20: Shown(
        in_process=[f"{STREAMING}::fact_20"],
        durable=[f"{DURABLE_STREAMS}::aborting_before_reading_submits_nothing"],
        both=[SAME_EVENTS],
    ),
    21: LATER,
    22: by_scenario(22),
    23: by_scenario(23),
    24: by_scenario(24),
    25: by_scenario(25),
    26: by_scenario(26),
    27: by_scenario(27),
    28: by_scenario(28, in_process=[f"{STRATEGIES}::28"]),
    29: Shown(in_process=[f"{STREAMING}::fact_29"], both=[SAME_EVENTS]),
    30: by_scenario(30),
    31: LATER,
    32: by_scenario(32, in_process=[f"{STRATEGIES}::32"]),
    33: by_scenario(33),
    34: by_scenario(34),
    35: by_scenario(35),
    36: by_scenario(36),
    37: by_scenario(37),
    38: by_scenario(38),
    39: Shown(in_process=[f"{STREAMING}::facts_39_40"], both=[SAME_EVENTS]),
    40: Shown(in_process=[f"{STREAMING}::facts_39_40"], both=[SAME_EVENTS]),
    41: by_scenario(41),
    42: Shown(in_process=[f"{STREAMING}::facts_42_43_66"], durable=[SAME_AS_A_STREAM]),
    43: Shown(in_process=[f"{STREAMING}::facts_42_43_66"], durable=[SAME_AS_A_STREAM]),
    44: "42 with a real model, which tests do not have",
    45: Shown(in_process=[f"{MIDDLEWARE}::fact_45"], both=[SAME_HOOKS]),
    46: Shown(
        in_process=[f"{MIDDLEWARE}::fact_46"],
        durable=[f"{DURABLE_MIDDLEWARE}::a_changed_answer_is_the_only_one_there_is"],
    ),
    47: Shown(
        in_process=[f"{MIDDLEWARE}::fact_47"],
        durable=[f"{DURABLE_MIDDLEWARE}::a_changed_input_is_the_only_one_there_is"],
        both=[SAME_HOOKS],
    ),
    48: Shown(host_free=[f"{MIDDLEWARE}::fact_48"]),
    49: logged("fact_49"),
    50: logged("fact_50"),
    51: logged("fact_51"),
    52: logged("fact_52"),
    53: logged("fact_53"),
    54: logged("fact_54"),
    55: tree("fact_55"),
    56: tree("fact_56"),
    57: tree("fact_57"),
    58: tree("fact_58"),
    59: tree("fact_59"),
    60: tree("fact_60"),
    61: tree("fact_61"),
    62: tree("fact_62"),
    63: tree("fact_63"),
    64: Shown(
        in_process=[f"{TREES}::fact_64"],
        durable=[f"{DURABLE_TREES}::a_branch_goes_on_from_where_it_was_made"],
        both=[SAME_STORY],
    ),
    65: by_scenario(65, in_process=[f"{STRATEGIES}::65"]),
    66: Shown(in_process=[f"{STREAMING}::facts_42_43_66"], durable=[SAME_AS_A_STREAM]),
    67: by_scenario(67),
    68: by_scenario(68),
    69: by_scenario(69),
    **dict.fromkeys(range(70, 79), LATER),
    79: Shown(in_process=[f"{AGENTS_BELOW}::reading_4_36"], both=[f"{SUB_AGENTS}::the_same_run_as_in_process"]),
}
"""By number: where it is shown, or why it is not."""


def sessions(number: str, file: str = SESSIONS, **more: Sequence[str]) -> Shown:
    """A reading about sessions, which a file has by its number."""
    return Shown(in_process=[f"{file}::reading_{number.replace('.', '_')}"], **more)


def scenarios(*names: str, **more: Sequence[str]) -> Shown:
    return Shown(scenarios=names, **more)


PLAN_STEPS = "unit/uap/test_plan_steps"
PLAN = "unit/workflows/test_plan"
READINGS: Mapping[str, Shown] = {
    "4.1": sessions("4.1", DOCUMENTS, durable=[f"{DURABLE_SCENARIOS}::readings_4_1_4_2_4_4"]),
    "4.2": sessions("4.2", durable=[f"{DURABLE_SCENARIOS}::readings_4_1_4_2_4_4"]),
    "4.3": sessions("4.3", DOCUMENTS, durable=[f"{DURABLE_DOCUMENTS}::the_specification_s_example_is_gone_on_with"]),
    "4.4": sessions("4.4", durable=[f"{DURABLE_SCENARIOS}::readings_4_1_4_2_4_4"]),
    "4.5": sessions("4.5", DOCUMENTS, durable=[f"{DURABLE_DOCUMENTS}::the_specification_s_example_is_gone_on_with"]),
    "4.6": sessions("4.6", DOCUMENTS),
    "4.6b": sessions("4.6b", both=[SAME_STORY]),
    "4.7": scenarios(
        "loop fails at its limit with calls open",
        "as many rounds as the limit are no error",
        "a turn of on_error completes the run",
        "react returns its turn at its limit",
    ),
    "4.8": scenarios(
        "a step of loop is one model call with its tools", in_process=["conformance/test_uap::reading_4_8"]
    ),
    "4.9": scenarios("react goes on after a call"),
    "4.9b": scenarios(
        "react reasons with tools that it may not call", "calls that come while react reasons are dropped"
    ),
    "4.9c": scenarios("reasoning is told to the model and is no part of the turn"),
    "4.9d": scenarios("react asks by its prompt exactly as given"),
    "4.10": scenarios(
        "loop asks again after tools, and calls no hooks of react",
        "planning is a step with its hooks, and tools are run within the next one",
        "react goes on after a call",
        in_process=[f"{STREAMING}::fact_20"],
        both=[SAME_EVENTS],
    ),
    "4.11": scenarios(
        "observations are told once more in the form asked for",
        in_process=["unit/workflows/test_react::results_are_told_once_more"],
    ),
    "4.12": scenarios(
        "loop answers in one step",
        "react returns its turn at its limit",
        in_process=["unit/test_inprocess::the_stop_condition_is_asked_behind_the_last_step_too"],
    ),
    "4.12b": scenarios("react reasons and acts in one step", "react goes on after a call"),
    "4.13": scenarios("a plan is asked for by schema and without tools", "a plan is found in the text around it"),
    "4.14": scenarios("planning is a step with its hooks, and tools are run within the next one"),
    "4.15": scenarios(
        "a plan step is asked for by its id, description and tool",
        "a step that fails makes a new plan",
        in_process=[f"{PLAN}::a_step_fails_if_its_tools_last_call_did"],
    ),
    "4.16": scenarios(
        "a plan is made anew three times at most",
        "a step that fails makes a new plan",
        "without replanning a failed step ends the run",
        in_process=[f"{PLAN}::what_ran_counts_in_the_size_of_a_new_plan"],
    ),
    "4.17": scenarios(
        "a plan in a circle is asked for again",
        "a plan that stays in a circle is an error",
        "a plan that is too long is cut",
        host_free=[
            f"{PLAN_STEPS}::dependencies_on_cut_steps_are_dropped",
            f"{PLAN_STEPS}::steps_that_can_come_next_keep_the_models_order",
        ],
    ),
    "4.18": scenarios("an empty plan is one plain answer", in_process=[f"{AGENTS}::reading_4_18"]),
    "4.19": Shown(host_free=[f"{PLAN_STEPS}::the_schema_can_be_enforced"]),
    "4.20": sessions(
        "4.20", TREES, both=[SAME_STORY], durable=[f"{DURABLE_TREES}::a_branch_goes_on_from_where_it_was_made"]
    ),
    "4.21": sessions("4.21", TREES, both=[SAME_STORY], durable=[f"{DURABLE_TREES}::a_merge_adds_what_is_lacking"]),
    "4.22": sessions(
        "4.22",
        both=[SAME_STORY],
        durable=[
            f"{DURABLE_TREES}::every_checkpoint_of_a_long_run_can_be_restored",
            f"{DURABLE_TREES}::an_untouched_checkpoint_is_restored_where_it_is",
        ],
    ),
    "4.23": sessions("4.23", durable=[f"{DURABLE_TREES}::a_run_goes_on_from_any_checkpoint_to_the_same_end"]),
    "4.24": sessions("4.24", both=[SAME_STORY]),
    "4.25": sessions("4.25", durable=[f"{DURABLE_SHOWN}::the_last_checkpoint_of_each_turn_is_shown_if_so_wanted"]),
    "4.26": sessions("4.26", durable=[f"{DURABLE_DOCUMENTS}::a_copy_goes_to_the_user_s_own_adapter"]),
    "4.27": sessions("4.27", durable=[f"{DURABLE_SESSIONS}::a_failed_run_is_resumed"]),
    "4.28": sessions("4.28", both=[SAME_STORY]),
    "4.31": sessions("4.31", durable=[f"{DURABLE_ASKS}::a_query_s_thread_is_kept_by_its_session"]),
    "4.32": sessions("4.32"),
    "4.33": sessions("4.33", durable=[f"{DURABLE_ASKS}::asks_of_one_thread_are_inputs_of_one_session"]),
    "4.30": Shown(
        in_process=[f"{SESSIONS}::reading_4_30", f"{RUNS_BELOW}::reading_4_30"],
        durable=[f"{SUB_AGENTS}::usage_by_path_sums_to_the_session"],
    ),
    "4.29": scenarios("a run begins with its input and a fresh state", in_process=[f"{SESSIONS}::reading_4_29"]),
    "4.34": Shown(
        in_process=[f"{AGENTS_BELOW}::reading_4_34"],
        durable=[f"{SUB_AGENTS}::a_sub_agent_without_a_model_has_its_parents"],
    ),
    **{f"4.{place}": Shown(host_free=[f"{AGENTS_BELOW}::reading_4_{place}"]) for place in (35, 37)},
    "4.40": Shown(host_free=[f"{AGENTS}::reading_4_40"]),
    "4.36": Shown(in_process=[f"{AGENTS_BELOW}::reading_4_36"], both=[f"{SUB_AGENTS}::the_same_run_as_in_process"]),
    "4.42": Shown(in_process=[f"{AGENTS}::reading_4_42"], both=[f"{DURABLE_SCENARIOS}::reading_4_42"]),
    "4.39": Shown(
        in_process=[f"{AGENTS_BELOW}::reading_4_39"], durable=[f"{SUB_AGENTS}::parallel_sub_agents_start_together"]
    ),
    "4.38": Shown(
        in_process=[f"{AGENTS_BELOW}::reading_4_38"],
        durable=[f"{SUB_AGENTS}::a_sub_agent_below_the_depth_limit_is_an_error_result"],
    ),
    "4.41": Shown(
        in_process=["unit/uap/test_agent::run_takes", "unit/uap/test_agent::other_arguments_are_refused"],
        durable=[f"{DURABLE_SCENARIOS}::fact_05"],
    ),
    "4.43": Shown(host_free=["unit/test_types::no_name_of_upp_can_be_reached"]),
    "4.44": Shown(in_process=[f"{MIDDLEWARE}::reading_4_44"], both=[SAME_HOOKS]),
    "4.45": scenarios(
        "a turn of on_error completes the run",
        in_process=[f"{MIDDLEWARE}::reading_4_45", "unit/uap/test_hooks::an_async_hook_is_awaited"],
    ),
    "4.46": scenarios(
        "the stop condition reads what on_step_end wrote",
        in_process=["unit/test_inprocess::a_hook_can_change_nothing_but_the_metadata"],
        durable=["integration/test_hooks::metadata_that_hooks_write_lasts"],
    ),
    "4.47": Shown(
        in_process=[f"{MIDDLEWARE}::reading_4_47"], both=[SAME_HOOKS, f"{DURABLE_SCENARIOS}::facts_49_to_54"]
    ),
    "4.48": Shown(
        in_process=[f"{MIDDLEWARE}::reading_4_48"],
        durable=[f"{DURABLE_MIDDLEWARE}::a_changed_answer_is_the_only_one_there_is"],
    ),
    "4.49": Shown(
        in_process=[f"{MIDDLEWARE}::reading_4_49"],
        both=[f"{DURABLE_MIDDLEWARE}::memory_changes_what_the_model_sees_and_nothing_else"],
    ),
    "4.50": Shown(
        in_process=[f"{STREAMING}::reading_4_50"],
        durable=[f"{DURABLE_STREAMS}::leaving_early_cancels_the_run", f"{DURABLE_STREAMS}::aborting"],
    ),
    "4.51": Shown(
        in_process=[f"{STREAMING}::reading_4_51"],
        durable=[f"{DURABLE_STREAMS}::a_turn_needs_no_iteration", f"{DURABLE_STREAMS}::leaving_early_cancels_the_run"],
    ),
    "4.52": Shown(in_process=[f"{STREAMING}::reading_4_52"], both=[SAME_EVENTS]),
    "4.53": Shown(in_process=[f"{STREAMING}::reading_4_53"], both=[SAME_EVENTS]),
    "4.54": Shown(
        in_process=[f"{RUNS_BELOW}::reading_4_54"],
        both=[f"{DURABLE_SHOWN}::a_stream_follows_sub_agents_by_path_if_so_wanted"],
    ),
    "4.55": Shown(
        in_process=[f"{STREAMING}::reading_4_55"],
        durable=[f"{DURABLE_STREAMS}::an_error_is_raised_to_who_reads_and_who_awaits"],
    ),
}
"""By number in part 4 of the reference."""
SUB_READINGS = ("4.6b", "4.9b", "4.9c", "4.9d", "4.12b")

MUSTS: Mapping[int, Shown] = {
    1: Shown(in_process=["conformance/test_uap::must_15_2_1"], durable=[f"{DURABLE_SCENARIOS}::must_15_2_1"]),
    2: Shown(host_free=["unit/test_types::no_name_of_upp_can_be_reached"]),
    3: Shown(in_process=[f"{DOCUMENTS}::reading_4_1"], durable=[f"{DURABLE_SCENARIOS}::readings_4_1_4_2_4_4"]),
    4: Shown(
        in_process=[f"{DOCUMENTS}::must_13_6_5"],
        durable=[f"{DURABLE_DOCUMENTS}::a_document_is_stored_by_the_first_awaited_call"],
    ),
    5: Shown(
        in_process=[f"{AGENTS_BELOW}::reading_4_39"], durable=[f"{SUB_AGENTS}::parallel_sub_agents_start_together"]
    ),
    6: Shown(in_process=[f"{MIDDLEWARE}::fact_45"], both=[SAME_HOOKS]),
    7: scenarios(
        "loop ends where the stop condition says so",
        "react ends where the stop condition says so",
        "plan ends where the stop condition says so",
    ),
    8: Shown(in_process=[f"{STREAMING}::must_12_5"], both=[SAME_EVENTS]),
    9: Shown(
        both=[SAME_STORY],
        in_process=[f"{SESSIONS}::reading_4_22", f"{RUNS_BELOW}::reading_4_30"],
        durable=[
            f"{DURABLE_TREES}::every_checkpoint_of_a_long_run_can_be_restored",
            f"{SUB_AGENTS}::usage_by_path_sums_to_the_session",
        ],
    ),
}
"""By number in section 15.2 of the specification."""


def entries() -> Iterator[tuple[str, Shown]]:
    """All that is shown, under what it is called in a failure."""
    yield from ((f"fact {number}", shown) for number, shown in FACTS.items() if isinstance(shown, Shown))
    yield from ((f"reading {number}", shown) for number, shown in READINGS.items())
    yield from ((f"MUST 15.2.{number}", shown) for number, shown in MUSTS.items())


@cache
def names_in(file: str) -> frozenset[str]:
    """The names of the tests in a file, without `test_`; none if there is no such file."""
    path = TESTS / f"{file}.py"
    parsed = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    functions = (node for node in parsed.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name.removeprefix("test_") for node in functions if node.name.startswith("test_"))


def exists(test: str) -> bool:
    file, _, name = test.partition("::")
    return any(found == name or found.startswith(f"{name}_") for found in names_in(file))


def test_the_map_has_every_number() -> None:
    assert sorted(FACTS) == list(range(1, 80))
    assert set(READINGS) == {*(f"4.{number}" for number in range(1, 56)), *SUB_READINGS}
    assert sorted(MUSTS) == list(range(1, 10))


def test_everything_is_shown_by_some_test() -> None:
    assert [what for what, shown in entries() if not (shown.tests or shown.scenarios)] == []


def test_every_test_that_is_named_exists() -> None:
    assert {
        what: gone for what, shown in entries() if (gone := [test for test in shown.tests if not exists(test)])
    } == {}
    assert {name for _, shown in entries() for name in shown.scenarios} <= set(ALL_SCENARIOS)


def test_every_fact_is_shown_in_both_hosts() -> None:
    facts = ((number, shown) for number, shown in FACTS.items() if isinstance(shown, Shown))
    assert [number for number, shown in facts if not shown.in_both_hosts] == []


def breaks(mutation: Mutation, shown: Shown) -> bool:
    """Whether a break's test is one of those that show something."""
    node, _, case = mutation.test.partition("[")
    file, _, name = node.removeprefix("tests/").partition(".py::test_")
    named = any(f"{file}::{name}_".startswith(f"{test}_") for test in shown.tests)
    return named or case.removesuffix("]") in shown.scenarios


def test_one_number_in_five_has_a_break() -> None:
    """Which its test must notice: `make soak` looks."""
    numbers, listed = [shown for _, shown in entries()], read_mutations()
    broken = [shown for shown in numbers if any(breaks(mutation, shown) for mutation in listed)]
    assert 5 * len(broken) >= len(numbers)


def test_scenarios_have_names_of_their_own() -> None:
    """So that one worker can serve all their agents."""
    assert len(ALL_SCENARIOS) == len(SCENARIOS) + len(READING_SCENARIOS)


@pytest.mark.parametrize("scenario", READING_SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_scenario_of_a_reading_ends_as_it_must(scenario: Scenario) -> None:
    turn, seen = await play(scenario)
    check_scenario(scenario, turn, seen)


@pytest.mark.parametrize(
    "script",
    [["hi"], [LOOK, "found"], [[LOOK, FAIL], LOOK, "found"]],
    ids=["answer", "tool", "batches"],
)
async def test_reading_4_8_a_loop_is_generate(script: Sequence[ScriptedAnswer]) -> None:
    """Its turn equals that of `llm.generate` with the same limit. Source: UAP-1.0 section 5.2."""
    made = agent(model=scripted(script), tools=[look, fail], execution=loop(max_iterations=2))
    model = llm(model=scripted(script), tools=[look, fail], tool_strategy=ToolUseStrategy(max_iterations=2))
    assert turn_json(await made.run(INPUT)) == turn_json(await model.generate(INPUT))


async def test_must_15_2_1_values_are_of_upps_types() -> None:
    """Themselves, not subclasses."""
    turn, seen = await play(ALL_SCENARIOS["react goes on after a call"])
    assert type(turn) is Turn
    assert [type(message) for message in turn.messages] == [
        UserMessage,
        AssistantMessage,
        ToolResultMessage,
        AssistantMessage,
    ]
    assert {type(made) for made in [*seen.completed, *seen.step_turns]} == {Turn}
