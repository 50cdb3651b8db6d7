"""Whether the parts of a setting go together, and if not, why: told before anything starts."""

from __future__ import annotations

from grid.core.engine import CHOOSE, NATIVE, SAMPLE, Engine
from grid.core.problem import DIAGNOSED, GIVEN, OUTLINE, REFERENCES, Stating
from grid.core.roles import ACTOR, CRITIC, EVALUATOR, JUDGE, SIMULATOR, USER, Role
from grid.engines.informed import Informed, Knowing
from grid.planners.refining import writes_plans
from grid.planners.restoring import NOT_RESTORED
from grid.settings.build import build_engine, engine_of
from grid.settings.parts import Parts, parts_of
from grid.settings.pooled import key_of, lacking
from grid.settings.roles import judging, models, restoring
from grid.settings.setting import REFINE, Setting


def invalid_reason(setting: Setting) -> str | None:
    """Why a setting's parts do not go together, naming both YAML files; None where they do."""
    parts = parts_of(setting.config)
    planner, dataset = parts.planner, parts.dataset
    of = f"conf/dataset/{_file(setting, 'dataset')}.yaml"
    if dataset.outline == GIVEN and OUTLINE not in dataset.provides:
        return f"{of} has no outline of its own, so that dataset.outline is hidden or drafted"
    for role, model in models(setting.config).items():
        reason = _unfit(setting, role, engine_of(role, model), parts)
        if reason:
            return reason
    if setting.config["retriever"].get("mode") == "thought" and not getattr(planner, "thinks_first", False):
        between = f"conf/retriever/{_file(setting, 'retriever')}.yaml retrieves between a thought and its action"
        return (
            f"{between} (retriever.mode=thought); conf/planner/{_file(setting, 'planner')}.yaml has none (react does)"
        )
    if parts.refines and not writes_plans(planner):
        plans = f"conf/planner/{_file(setting, 'planner')}.yaml writes none before it acts"
        return f"conf/refine/{_file(setting, REFINE)}.yaml refines plans; {plans}"
    verbs, cases = planner.needs & {SAMPLE, CHOOSE}, planner.needs - {SAMPLE, CHOOSE, JUDGE}
    needs = f"conf/planner/{_file(setting, 'planner')}.yaml needs"
    provided, by = build_engine(models(setting.config)[ACTOR]).provides, f"conf/model/{_file(setting, 'model')}.yaml"
    missing = verbs - provided
    if missing:
        return f"{needs} {', '.join(sorted(missing))}, which {by} cannot do"
    if CHOOSE in verbs and NATIVE in provided:
        return f"{needs} choices among tools that stand in the prompt; {by} has model.tools=native"
    missing = cases - dataset.provides
    if missing:
        return f"{needs} {', '.join(sorted(missing))}, which {of} does not have"
    for name, disturbing in parts.robustness.items():
        if missing := disturbing.needs - dataset.provides:
            return f"conf/robustness/{name}.yaml needs {', '.join(sorted(missing))}, which {of} does not have"
    what = lacking(key_of(setting.config["dataset"]), key_of(setting.config["pool"]))
    return f"conf/pool/{_file(setting, 'pool')}.yaml needs {what.format(file=of)}" if what else None


def _unfit(setting: Setting, role: Role, engine: Engine, parts: Parts) -> str | None:
    """Why an engine cannot have its role, whatever the planner does with it; None where it can."""
    dataset = parts.dataset
    of = f"conf/dataset/{_file(setting, 'dataset')}.yaml"
    how = judging(setting.config).get(role)
    if role == CRITIC and SAMPLE not in engine.provides:
        refine = f"conf/refine/{_file(setting, REFINE)}.yaml"
        return f"{refine} needs {SAMPLE} of its critic, which conf/model/{_file(setting, role)}.yaml cannot do"
    if role in (SIMULATOR, USER) and (SAMPLE not in engine.provides or engine.sampler is None):
        who = "tools" if role == SIMULATOR else "user"
        return f"{of} has its {who} played by a language model, which conf/model/{_file(setting, role)}.yaml is not"
    if role == EVALUATOR and parts.judges_plans:
        return _no_judge_of_plans(setting, engine, parts)
    if role == EVALUATOR and engine.sampler is None and isinstance(dataset, Stating) and dataset.stating:
        asks = f"{of} asks which statements about an episode are true, which a language model alone can tell"
        return f"{asks}: model@evaluator={_file(setting, role)} (or model@judge, who stands in for it) is none"
    if isinstance(engine, Informed) and role == EVALUATOR:
        texts = "asks with dataset.{}=judge which texts mean the same"
        what = texts.format(parts.compares_texts) if parts.compares_texts else "asks about its episodes"
        return f"{of} {what}, which conf/model/{_file(setting, role)}.yaml cannot tell"
    if isinstance(engine, Informed) and REFERENCES not in dataset.provides:
        file = _file(setting, "model" if role == ACTOR else role)
        return f"conf/model/{file}.yaml needs to be told the cases' references, which {of} does not have"
    if how and how.verb not in engine.provides:
        by = of if role == EVALUATOR else f"conf/planner/{_file(setting, 'planner')}.yaml"
        asks = f"{by} asks the {role} with {role}.form={how.form}, which needs {how.verb}"
        return f"{asks}; conf/model/{_file(setting, role)}.yaml cannot do it"
    restored = restoring(setting.config).restored
    if role == JUDGE and restored != NOT_RESTORED and REFERENCES not in dataset.provides:
        return f"judge.restored={restored} needs the cases' references, which {of} does not have"
    if role == JUDGE and isinstance(engine, Informed) and parts.tools_ask:
        file = f"conf/model/{_file(setting, role)}.yaml"
        return f"robustness.{parts.tools_ask} asks which names are meant, which {file} cannot tell"
    return None


def _no_judge_of_plans(setting: Setting, engine: Engine, parts: Parts) -> str | None:
    """Why an engine cannot say which plans are right; None where it can."""
    of, by = (f"conf/{file}.yaml" for file in (f"dataset/{_file(setting, 'dataset')}",
                                               f"model/{_file(setting, EVALUATOR)}"))  # fmt: skip
    if isinstance(engine, Informed) and (not isinstance(engine, Knowing) or DIAGNOSED not in parts.dataset.provides):
        return f"{by} judges with a planted accuracy, which takes plans whose truth is computed; {of} has none"
    if SAMPLE not in engine.provides:
        return f"{of} asks for verdicts with dataset.{parts.judges_plans}, which need {SAMPLE}; {by} cannot do it"
    return None


def _file(setting: Setting, group: str) -> str:
    """The YAML's name: the label without the values that were changed in it."""
    return setting.labels[group].partition("[")[0]
