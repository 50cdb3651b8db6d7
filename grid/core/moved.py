"""Modules that were renamed: their old names can still be imported, with one warning that gives the new name.

A line of `_TABLE` contains a module's current name, then its old names. The table is not a data file, because the
digest of a module's code includes the data files that the module reads, whereas names of modules do not affect results.
`python launch/renamed.py FOLDER` writes the new names into a plugin's files.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

_TABLE = """
analysis.compare.runs analysis.comparison.measures analysis.comparison.queries analysis.comparison.runs
analysis.compare.tables analysis.compare.report analysis.comparison.changes analysis.comparison.drawings
analysis.compare.tables analysis.comparison.report analysis.comparison.sheets
analysis.figures.drawings analysis.drawings analysis.heatmaps
analysis.figures.plans analysis.plans.figures
analysis.figures.search analysis.figures.search_drawn analysis.search.drawings analysis.search.figures
analysis.load.answers analysis.load.served analysis.load.unreadable analysis.served analysis.unreadable
analysis.load.baselines analysis.baselines
analysis.load.frames analysis.apart
analysis.load.grading analysis.grading
analysis.load.partial analysis.left_out analysis.load.left_out analysis.partial
analysis.load.provenance analysis.heading analysis.load.heading analysis.load.planted analysis.made_up analysis.planted
analysis.load.provenance analysis.provenance
analysis.load.queries analysis.queries
analysis.load.spending analysis.spending
analysis.load.unknowns analysis.unbounded analysis.unknowns
analysis.page.drawing analysis.styles
analysis.page.html analysis.html
analysis.page.render analysis.render
analysis.page.table analysis.table
analysis.papers.agreement analysis.agreement.plans analysis.agreement.sheets
analysis.papers.beside analysis.published.beside analysis.published.combined
analysis.papers.files analysis.published.files
analysis.papers.horizon analysis.horizon analysis.papers.reading analysis.reading
analysis.papers.order analysis.published.order
analysis.papers.published analysis.papers.coefficients analysis.published.coefficients analysis.published.decisions
analysis.papers.published analysis.published.sheets
analysis.papers.study analysis.examples analysis.lacking analysis.papers.examples analysis.papers.lacking analysis.study
analysis.stats.agreement analysis.agreement.labels analysis.agreement.measures
analysis.stats.calibration analysis.calibration.binned analysis.calibration.selective analysis.stats.selective
analysis.stats.design analysis.design analysis.levels
analysis.stats.intervals analysis.intervals analysis.significance
analysis.stats.latent analysis.power.claims analysis.power.latent analysis.power.moments analysis.power.pilot
analysis.stats.latent analysis.stats.pilot
analysis.stats.power analysis.power.doubts analysis.power.needed analysis.power.plans analysis.power.simulation
analysis.stats.spec analysis.controls analysis.formula analysis.spec analysis.stats.formula
analysis.tables.branches analysis.branches analysis.branching.mechanisms analysis.branching.queries
analysis.tables.branches analysis.branching.sheets
analysis.tables.by_value analysis.by_value
analysis.tables.calibrated analysis.calibration.decisions analysis.calibration.measures
analysis.tables.calibration analysis.calibration.against analysis.calibration.drawings analysis.calibration.figures
analysis.tables.calibration analysis.calibration.sheets
analysis.tables.disturbances analysis.disturbances analysis.replacements analysis.tables.replacements
analysis.tables.failed analysis.failures.read
analysis.tables.failure_cells analysis.failures.cached analysis.failures.cells analysis.failures.values
analysis.tables.failure_cells analysis.tables.failure_values
analysis.tables.failure_rules analysis.failures.pairing analysis.failures.plans analysis.failures.rules
analysis.tables.failures analysis.failures.figures analysis.failures.shares analysis.failures.sheets
analysis.tables.frontier analysis.frontier.drawings analysis.frontier.panel analysis.frontier.points
analysis.tables.frontier analysis.tables.frontier_points
analysis.tables.measures analysis.measured analysis.measures analysis.tables.measured
analysis.tables.plan_cells analysis.plans.cells analysis.plans.execution analysis.plans.sheet
analysis.tables.plan_cells analysis.tables.plan_execution analysis.tables.plan_sheet
analysis.tables.plans analysis.plans.efficiency analysis.plans.extraneous analysis.plans.refinement
analysis.tables.plans analysis.plans.sheets analysis.plans.stepwise analysis.plans.tables analysis.plans.tasks
analysis.tables.rates analysis.differences analysis.sheets analysis.tables.costs analysis.tables.differences
analysis.tables.regression analysis.gee analysis.regression
analysis.tables.remembered analysis.remembered
analysis.tables.restoration analysis.restoration
analysis.tables.rewards analysis.rewards
analysis.tables.search analysis.search.pass_sheets analysis.search.passes analysis.search.sheets
analysis.tables.search_cells analysis.search.anytime analysis.search.cells analysis.search.comparing
analysis.tables.search_cells analysis.search.sizes analysis.tables.comparing
analysis.tables.success analysis.pass_k analysis.results analysis.tables.pass_k
analysis.tables.thresholds analysis.thresholds
analysis.tables.trajectories analysis.kinds analysis.patterns analysis.tables.tool_use analysis.tool_use
analysis.tables.trajectories analysis.trajectories analysis.trajectory.figures analysis.trajectory.metrics
analysis.tables.trajectories analysis.trajectory.scaling
analysis.tables.two_numbers analysis.two_numbers analysis.varied.cells analysis.varied.drawings analysis.varied.sheets
analysis.tables.win_rates analysis.ranks analysis.tables.ranks analysis.win_rates
analysis.viewer.addresses analysis.viewer.filters analysis.viewer.links analysis.viewer.places
analysis.viewer.app analysis.viewer.guard
analysis.viewer.episodes analysis.viewer.calls
analysis.viewer.inspect_logs analysis.inspect_logs analysis.inspecting.logs analysis.inspecting.messages
analysis.viewer.inspect_logs analysis.inspecting.samples analysis.inspecting.texts
analysis.viewer.matrix analysis.viewer.failing
analysis.viewer.pages analysis.viewer.asked analysis.viewer.trees
grid.cells.deadline grid.cells.limits grid.runner.deadline grid.runner.limits
grid.cells.environment grid.runner.environment
grid.cells.expected grid.runner.expected
grid.cells.pilot grid.cells.capped grid.cells.forecast grid.runner.capped grid.runner.forecast grid.runner.pilot
grid.cells.rows grid.cells.attempts grid.cells.costs grid.cells.endings grid.cells.transcripts grid.runner.attempts
grid.cells.rows grid.runner.costs grid.runner.endings grid.runner.rows grid.runner.transcripts
grid.cells.run grid.cells.case_rows grid.cells.failures grid.cells.identity grid.cells.tree_rows grid.runner.case_rows
grid.cells.run grid.runner.failures grid.runner.identity grid.runner.run grid.runner.tree_rows
grid.cluster.answering grid.replicas.answering
grid.cluster.batch grid.runner.batch
grid.cluster.client grid.replicas.client
grid.cluster.connection grid.runner.cluster
grid.cluster.fleet grid.cluster.probing grid.replicas.fleet grid.runner.probing
grid.cluster.gpus grid.replicas.gpus
grid.cluster.lanes grid.runner.lanes
grid.cluster.metrics grid.cluster.meters grid.replicas.metrics grid.runner.meters
grid.cluster.pilots grid.cluster.pilot_batch grid.runner.pilot_batch
grid.cluster.pool grid.replicas.pool
grid.cluster.ready grid.replicas.ready
grid.cluster.replica grid.replicas.replica
grid.cluster.signs grid.runner.signs
grid.cluster.worker grid.runner.worker
grid.contracts.subject grid.contracts.files
grid.core.engine grid.core.plan_answers grid.core.roles grid.core.verdicts grid.engines.base grid.engines.plan_answers
grid.core.engine grid.engines.roles grid.engines.verdicts
grid.core.errors grid.errors
grid.core.metric grid.core.declared grid.metrics.declared grid.metrics.metric
grid.core.problem grid.core.reference grid.core.retriever grid.datasets.base grid.reference grid.retrievers.base
grid.core.types grid.chains grid.core.chains grid.types
grid.core.untrusted grid.text.untrusted
grid.core.util grid.core.cache grid.core.once grid.core.seeds grid.core.strict grid.datasets.cache grid.once grid.seeds
grid.core.util grid.strict
grid.core.world grid.worlds.base
grid.datasets.apb grid.datasets.apb.dataset
grid.datasets.apb_records grid.datasets.apb.records grid.datasets.apb.steps grid.datasets.apb.tools
grid.datasets.apb_synthetic.build grid.datasets.apb_synthetic.contradictions grid.datasets.apb_synthetic.costs
grid.datasets.apb_synthetic.build grid.datasets.apb_synthetic.draft
grid.datasets.apb_synthetic.dataset grid.datasets.apb_synthetic.draw grid.datasets.apb_synthetic.measuring
grid.datasets.apb_synthetic.stats grid.datasets.apb_synthetic.checks grid.datasets.apb_synthetic.rules
grid.datasets.apb_synthetic.stock grid.datasets.apb_synthetic.expansion grid.datasets.apb_synthetic.found
grid.datasets.apb_synthetic.stock grid.datasets.apb_synthetic.judged grid.datasets.apb_synthetic.records
grid.datasets.apb_synthetic.stock grid.datasets.apb_synthetic.tools
grid.datasets.apibench grid.datasets.apibench.dataset grid.datasets.apibench.scorer grid.datasets.apibench.tools
grid.datasets.apibench grid.datasets.apibench.world
grid.datasets.apibench_trees grid.datasets.apibench.trees
grid.datasets.bfcl grid.datasets.bfcl.conversation grid.datasets.bfcl.dataset grid.datasets.bfcl.multi_turn
grid.datasets.bfcl grid.datasets.bfcl.single_turn
grid.datasets.bfcl_records grid.datasets.bfcl.checker grid.datasets.bfcl.classes grid.datasets.bfcl.records
grid.datasets.dataset grid.datasets.balance grid.datasets.sampling
grid.datasets.files grid.datasets.json_lists
grid.datasets.freebase.dataset grid.datasets.freebase.files grid.datasets.freebase.graphs
grid.datasets.freebase.facts grid.datasets.freebase.denotation grid.datasets.freebase.literals
grid.datasets.freebase.facts grid.datasets.freebase.ontology
grid.datasets.freebase.records grid.datasets.freebase.drawing grid.datasets.freebase.planting
grid.datasets.freebase.shards grid.datasets.freebase.decoys
grid.datasets.freebase.stats grid.datasets.freebase.attacks
grid.datasets.freebase.witness grid.datasets.freebase.names grid.datasets.freebase.noise
grid.datasets.functions grid.datasets.function_tools
grid.datasets.grading grid.datasets.examining grid.datasets.grounding
grid.datasets.gta grid.datasets.gta.answers grid.datasets.gta.dataset grid.datasets.gta.metrics
grid.datasets.gta grid.datasets.gta.records
grid.datasets.gta_generated.dataset grid.datasets.gta_generated.prices
grid.datasets.gta_generated.draft grid.datasets.gta_generated.counting grid.datasets.gta_generated.stock
grid.datasets.gta_generated.questions grid.datasets.gta_generated.lookups grid.datasets.gta_generated.pictures
grid.datasets.gta_generated.questions grid.datasets.gta_generated.shelves
grid.datasets.hotpotqa.dataset grid.datasets.hotpotqa.kept grid.datasets.hotpotqa.pools grid.datasets.hotpotqa.searched
grid.datasets.hotpotqa.parts grid.datasets.hotpotqa.baselines grid.datasets.hotpotqa.records
grid.datasets.hotpotqa.parts grid.datasets.hotpotqa.spans grid.datasets.hotpotqa.synthesis
grid.datasets.kqa.dataset grid.datasets.kqa.generate grid.datasets.kqa.validation
grid.datasets.kqa.program grid.datasets.kqa.facts grid.datasets.kqa.records grid.datasets.kqa.rules
grid.datasets.kqa.program grid.datasets.kqa.trees
grid.datasets.kqa.phrases grid.datasets.kqa.clauses
grid.datasets.kqa.world grid.datasets.kqa.stock grid.datasets.kqa.words
grid.datasets.mcp grid.datasets.mcp.dataset grid.datasets.mcp.folders
grid.datasets.mcp_links grid.worlds.mcp.process grid.worlds.mcp.server
grid.datasets.mcp_session grid.datasets.mcp.tools grid.worlds.mcp.listing grid.worlds.mcp.session
grid.datasets.mcp_tasks grid.datasets.mcp.tasks
grid.datasets.mcp_world grid.worlds.mcp.results grid.worlds.mcp.world
grid.datasets.mnms grid.datasets.mnms.dataset grid.datasets.mnms.metrics grid.datasets.mnms.world
grid.datasets.mnms_records grid.datasets.mnms.records grid.datasets.mnms.tools
grid.datasets.parameters grid.datasets.alternatives
grid.datasets.question_answering grid.datasets.constants grid.datasets.nearest
grid.datasets.restbench grid.datasets.restbench.dataset grid.datasets.restbench.reference grid.datasets.restbench.spec
grid.datasets.restbench_world grid.datasets.restbench.examples grid.worlds.rest.endpoint grid.worlds.rest.response
grid.datasets.restbench_world grid.worlds.rest.world
grid.datasets.slate.dataset grid.datasets.slate.cases grid.datasets.slate.library
grid.datasets.slate.drafts grid.datasets.slate.expressions grid.datasets.slate.outcomes grid.datasets.slate.records
grid.datasets.slate.export grid.datasets.slate.baselines grid.datasets.slate.card grid.datasets.slate.standalone
grid.datasets.slate.shop grid.datasets.slate.stock grid.datasets.slate.values
grid.datasets.slate.stats grid.datasets.slate.checking
grid.datasets.stabletoolbench grid.datasets.stabletoolbench.dataset grid.datasets.stabletoolbench.judging
grid.datasets.stabletoolbench grid.datasets.stabletoolbench.recorded grid.datasets.stabletoolbench.server
grid.datasets.stabletoolbench_records grid.datasets.stabletoolbench.names grid.datasets.stabletoolbench.records
grid.datasets.tau2.dataset grid.datasets.tau2.scoring grid.datasets.tau2.tools
grid.datasets.tau2.package grid.worlds.tau2.arithmetic grid.worlds.tau2.databases grid.worlds.tau2.package
grid.datasets.tau2.package grid.worlds.tau2.running grid.worlds.tau2.state grid.worlds.tau2.tasks
grid.datasets.tau2.world grid.datasets.tau2.records grid.datasets.tau2.users grid.worlds.tau2.reward
grid.datasets.tau2.world grid.worlds.tau2.world
grid.datasets.traject_bench.dataset grid.datasets.traject_bench.examine grid.datasets.traject_bench.outputs
grid.datasets.traject_bench.dataset grid.datasets.traject_bench.tools grid.datasets.traject_bench.world
grid.datasets.ultratool grid.datasets.callstrings
grid.datasets.workbench grid.datasets.workbench.dataset grid.datasets.workbench.records grid.worlds.workbench.world
grid.datasets.workbench_table grid.worlds.workbench.analytics grid.worlds.workbench.matching grid.worlds.workbench.table
grid.datasets.workbench_table grid.worlds.workbench.tool
grid.datasets.workbench_tools grid.worlds.workbench.calendar grid.worlds.workbench.customers grid.worlds.workbench.email
grid.datasets.workbench_tools grid.worlds.workbench.projects
grid.engines.answer_schema grid.engines.plan_schema
grid.engines.choice grid.engines.names
grid.engines.hosted grid.engines.informed grid.engines.own_log grid.engines.probe grid.engines.progress
grid.engines.hosted grid.engines.spans
grid.engines.http.chat grid.engines.http.beside grid.engines.http.content grid.engines.http.counts
grid.engines.http.chat grid.engines.http.reasons grid.engines.http.strict
grid.engines.http.client grid.engines.http.sampler
grid.engines.http.engine grid.engines.http.token_server
grid.engines.language_model grid.engines.rendering
grid.engines.lexical.arguments grid.engines.lexical.extraction grid.engines.lexical.needs grid.engines.lexical.points
grid.engines.lexical.arguments grid.engines.lexical.remembering
grid.engines.lexical.engine grid.engines.lexical.bm25 grid.engines.lexical.plans grid.engines.lexical.reflecting
grid.engines.places grid.engines.plan_writing grid.engines.recovering grid.engines.tokens
grid.engines.simulated.engine grid.engines.simulated.plan_judge grid.engines.simulated.theory
grid.engines.simulated.plans grid.engines.simulated.calls grid.engines.simulated.difficulty grid.engines.simulated.judge
grid.engines.simulated.plans grid.engines.simulated.refining
grid.engines.simulated.policy grid.engines.simulated.deciding
grid.engines.transformers.engine grid.engines.transformers.batches
grid.engines.transformers.model grid.engines.transformers.cache grid.engines.transformers.forest
grid.engines.transformers.model grid.engines.transformers.grammar
grid.engines.vllm.engine grid.engines.vllm.offspring grid.engines.vllm.start
grid.engines.wheels grid.engines.sources
grid.episode.acting grid.episode.refusing grid.episode.view grid.planners.acting grid.planners.refusing
grid.episode.acting grid.planners.view
grid.episode.answering grid.planners.answering
grid.episode.asking grid.planners.asking
grid.episode.episode grid.planners.base
grid.episode.judging grid.planners.judging
grid.episode.options grid.planners.options
grid.episode.outline grid.planners.outline
grid.episode.plan_judging grid.episode.plan_prompts grid.episode.plan_text grid.metrics.plan_judging
grid.episode.plan_judging grid.metrics.plan_prompts grid.metrics.plan_text
grid.episode.planning grid.episode.chains grid.episode.drafting grid.metrics.chains grid.planners.drafting
grid.episode.planning grid.planners.planning
grid.episode.progress grid.planners.progress
grid.episode.prompts grid.episode.turns grid.planners.prompts grid.planners.turns
grid.episode.requests grid.episode.again grid.planners.again grid.planners.requests
grid.episode.tree grid.planners.search.tree
grid.metrics.failure_patterns grid.metrics.usage
grid.metrics.scores grid.metrics.plan_shape grid.metrics.replaced grid.metrics.solvable
grid.metrics.stepwise grid.metrics.repeats grid.metrics.trajectory
grid.planners.apb grid.planners.holistic grid.planners.plan_first grid.planners.predicting grid.planners.stepwise
grid.planners.apb grid.planners.tool_chain
grid.planners.egb grid.planners.egb_tree
grid.planners.horizon grid.planners.fh grid.planners.sh
grid.planners.react grid.planners.thinking
grid.planners.reflexion grid.planners.reflecting grid.planners.retry
grid.planners.remembering grid.planners.memory
grid.planners.search grid.planners.search.evaluating grid.planners.search.gate grid.planners.search.kernel
grid.planners.search grid.planners.search.planner grid.planners.search.scores
grid.planners.tooltree grid.planners.search.plateau grid.planners.search.rewarded
grid.pools.grown grid.pools.distractors grid.pools.tool_files
grid.pools.whole grid.pools.base
grid.retrievers.scored grid.retrievers.bm25 grid.retrievers.dense grid.retrievers.embedding grid.retrievers.redefined
grid.retrievers.scored grid.retrievers.texts
grid.robustness.costs grid.robustness.composites
grid.robustness.offering grid.robustness.naming grid.robustness.synonyms
grid.robustness.schema_matching grid.robustness.matching grid.robustness.similarity grid.robustness.tools_forgiving
grid.robustness.schema_matching grid.robustness.tools_strict
grid.roles.comparing grid.runner.comparing
grid.roles.customer grid.runner.customer
grid.roles.evaluation grid.roles.audit grid.runner.audit grid.runner.evaluation
grid.roles.grounding grid.runner.grounding
grid.roles.simulation grid.roles.asked_once grid.runner.asked_once grid.runner.simulation
grid.settings.build grid.runner.build grid.runner.solved grid.settings.solved
grid.settings.check grid.runner.caps grid.runner.check grid.runner.fitting grid.settings.caps grid.settings.fitting
grid.settings.config grid.runner.config
grid.settings.make grid.runner.make grid.runner.plain_values grid.settings.plain_values
grid.settings.parts grid.runner.ordering grid.runner.pooled grid.settings.ordering grid.settings.pooled
grid.settings.plan grid.runner.plan grid.runner.turns grid.settings.turns
grid.settings.remembered grid.runner.remembered
grid.settings.roles grid.runner.prices grid.runner.roles grid.settings.prices
grid.settings.setting grid.runner.cell grid.runner.keeping grid.settings.keeping
grid.store.files grid.store.looking
grid.store.scanning grid.store.joined
grid.sweeps.api launch.api
grid.sweeps.arguments grid.sweeps.command grid.sweeps.helping grid.sweeps.quoting grid.sweeps.refusals launch.arguments
grid.sweeps.arguments launch.command launch.helping launch.quoting launch.refusals
grid.sweeps.composing grid.sweeps.plugins launch.composing launch.plugins
grid.sweeps.dry_run launch.dry_run
grid.sweeps.jobs grid.sweeps.folders grid.sweeps.stand_ins launch.folders launch.jobs launch.stand_ins
grid.sweeps.progress grid.sweeps.progress_file grid.sweeps.told launch.progress launch.told
grid.sweeps.ending grid.sweeps.spending launch.spending
grid.sweeps.session grid.sweeps.in_process grid.sweeps.metrics grid.sweeps.recording
grid.sweeps.session grid.sweeps.summary launch.in_process launch.metrics launch.recording launch.session
grid.sweeps.session launch.summary
grid.synthesis.asking grid.datasets.slate.construct.asking grid.datasets.slate.construct.items
grid.synthesis.asking grid.datasets.slate.construct.journal grid.datasets.slate.construct.rules
grid.synthesis.asking grid.synthesis.slate.asking grid.synthesis.slate.items grid.synthesis.slate.journal
grid.synthesis.asking grid.synthesis.slate.rules
grid.synthesis.by_queries grid.datasets.slate.construct.by_queries grid.datasets.slate.construct.grounding
grid.synthesis.by_queries grid.datasets.slate.construct.merging grid.datasets.slate.construct.nearby
grid.synthesis.by_queries grid.synthesis.slate.by_queries grid.synthesis.slate.grounding grid.synthesis.slate.merging
grid.synthesis.by_queries grid.synthesis.slate.nearby
grid.synthesis.config grid.datasets.slate.construct.config grid.datasets.slate.construct.shapes
grid.synthesis.config grid.synthesis.slate.config grid.synthesis.slate.shapes
grid.synthesis.plans grid.datasets.slate.construct.plans grid.synthesis.slate.plans
grid.synthesis.queries grid.datasets.slate.construct.outlines grid.datasets.slate.construct.queries
grid.synthesis.queries grid.datasets.slate.construct.wishes grid.synthesis.slate.outlines grid.synthesis.slate.queries
grid.synthesis.queries grid.synthesis.slate.wishes
grid.synthesis.slate grid.datasets.slate.construct grid.datasets.slate.construct.__main__
grid.synthesis.slate grid.datasets.slate.construct.pipeline grid.datasets.slate.construct.tables
grid.synthesis.slate grid.synthesis.slate.__main__ grid.synthesis.slate.pipeline grid.synthesis.slate.tables
grid.synthesis.substeps grid.datasets.slate.construct.outcomes grid.datasets.slate.construct.substeps
grid.synthesis.substeps grid.synthesis.slate.outcomes grid.synthesis.slate.substeps
grid.synthesis.tools grid.datasets.slate.construct.tools grid.synthesis.slate.tools
grid.text.answers grid.text.chains grid.text.refusals grid.text.short_answers grid.text.verdicts
grid.text.calls grid.text.misspelling
grid.text.objects grid.text.plain_yaml
grid.text.references grid.text.arguments
grid.worlds.equivalence grid.worlds.moments grid.worlds.units
grid.worlds.functions grid.worlds.instances
grid.worlds.kopl.functions grid.worlds.kopl.programs grid.worlds.kopl.wording
grid.worlds.kopl.queries grid.worlds.kopl.filters grid.worlds.kopl.results
grid.worlds.kopl.values grid.worlds.kopl.base grid.worlds.kopl.errors grid.worlds.kopl.glossary grid.worlds.kopl.sets
grid.worlds.kopl.world grid.worlds.kopl.concepts grid.worlds.kopl.expecting grid.worlds.kopl.reading
grid.worlds.layers grid.worlds.recording grid.worlds.rejecting grid.worlds.retrieving
grid.worlds.programs.model grid.worlds.programs.describing grid.worlds.programs.rules grid.worlds.programs.values
grid.worlds.programs.mutations grid.worlds.programs.breaking grid.worlds.programs.drafts
grid.worlds.programs.scoring grid.worlds.programs.attempts grid.worlds.programs.faults
grid.worlds.programs.search grid.worlds.programs.resolving
grid.worlds.programs.world grid.worlds.programs.steps grid.worlds.programs.universe
grid.worlds.readers grid.worlds.search.corpus grid.worlds.search.extraction grid.worlds.search.readers
grid.worlds.readers grid.worlds.search.reasoning
grid.worlds.scenes.scene grid.worlds.scenes.given grid.worlds.scenes.seeing
grid.worlds.scenes.tools grid.worlds.scenes.code grid.worlds.scenes.web
grid.worlds.scenes.world grid.worlds.scenes.algebra grid.worlds.scenes.making grid.worlds.scenes.reckoning
grid.worlds.search grid.worlds.search.world
grid.worlds.simulated grid.worlds.talking
grid.worlds.sparql.graph grid.worlds.sparql.literals grid.worlds.sparql.results grid.worlds.sparql.store
grid.worlds.sparql.programs grid.worlds.sparql.reading
grid.worlds.sparql.queries grid.worlds.sparql.errors grid.worlds.sparql.expressions
grid.worlds.sparql.tools grid.worlds.sparql.lookups
grid.worlds.sparql.world grid.worlds.sparql.building grid.worlds.sparql.endpoint grid.worlds.sparql.expecting
grid.worlds.sparql.world grid.worlds.sparql.resolving
launch.agreement launch.benchmarks.judging
launch.benchmarks.chaos launch.benchmarks.nodes launch.benchmarks.victims
launch.benchmarks.choose launch.benchmarks.prompts
launch.benchmarks.gpu launch.benchmarks.gpu_kills launch.benchmarks.gpu_replica
launch.benchmarks.gpu_exact launch.benchmarks.gpu_masks launch.benchmarks.gpu_model
launch.benchmarks.kopl launch.benchmarks.kopl_worlds
launch.benchmarks.overhead launch.benchmarks.versus
launch.benchmarks.search launch.benchmarks.null_search
launch.benchmarks.sparql launch.benchmarks.sparql_graphs
launch.benchmarks.throughput launch.benchmarks.layers
launch.benchmarks.viewer launch.benchmarks.viewer_rows
launch.gallery launch.gallery_progress launch.presets
launch.power launch.power_arguments
launch.power_table launch.pilots
launch.readme launch.commits launch.measuring
launch.report launch.two_runs
launch.win_rate launch.comparing launch.pairs
"""


def table() -> Mapping[str, str]:
    """Maps the old names of modules to their current names; a module that moved twice is found by both old names."""
    found = {old: new for new, *before in map(str.split, _TABLE.strip().splitlines()) for old in before}
    for old, new in found.items():
        while new in found:
            new = found[new]
        found[old] = new
    return found


MOVED = table()


def today(name: str) -> str:
    """The dotted name of an object in a module, with the module's current name."""
    module, _, last = name.rpartition(".")
    return f"{MOVED.get(module, module)}.{last}"


_CLASSES = """
grid.datasets.apb.dataset.Apb
grid.datasets.apibench.dataset.APIBench
grid.datasets.bfcl.dataset.BFCL
grid.datasets.gta.dataset.Gta
grid.datasets.mcp.dataset.Mcp
grid.datasets.mnms.dataset.Mnms
grid.datasets.restbench.dataset.RestBench
grid.datasets.stabletoolbench.dataset.StableToolBench
grid.datasets.workbench.dataset.WorkBench
grid.planners.egb_tree.EGBTree
grid.planners.fh.FullHorizon
grid.planners.holistic.Holistic
grid.planners.plan_first.PlanFirst
grid.planners.retry.Retry
grid.planners.sh.SingleStepHorizon
grid.planners.stepwise.Stepwise
grid.retrievers.bm25.BM25
grid.retrievers.dense.Dense
grid.retrievers.dense.Hybrid
grid.robustness.tools_forgiving.ToolsForgiving
grid.robustness.tools_strict.ToolsStrict
"""
FIRST = {today(name): name for name in _CLASSES.split()}
"""For each class whose module moved after rows had been written: the class's first name, by its current name.

Ids keep the first name.
"""


def named_today(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config in which every `_target_` has the current name of its module."""
    return _named(config, today)


def named_first(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config in which every `_target_` has the class name that ids and rows use."""
    return _named(config, lambda name: FIRST.get(today(name), name))


def _named(config: Mapping[str, Any], name: Callable[[str], str]) -> dict[str, Any]:
    def known(key: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return _named(value, name)
        return name(value) if key == "_target_" and isinstance(value, str) else value

    return {key: known(key, value) for key, value in config.items()}


_ROOT = Path(__file__).parents[2]
_GONE = {
    package
    for package in (name.rpartition(".")[0] for name in MOVED)
    if package not in MOVED and not (_ROOT / package.replace(".", "/") / "__init__.py").is_file()
}
"""Packages that no longer exist, because all their modules moved; some are a single file now."""


def _others(fullname: str, path: Sequence[str] | None) -> bool:
    """Whether a module is in a user's folder that has the same name as one of the project's packages."""
    ours = _ROOT / fullname.rpartition(".")[0].replace(".", "/")
    theirs = [one for one in path or () if Path(one).resolve() != ours]
    return bool(theirs) and PathFinder.find_spec(fullname, theirs) is not None


class _OneFile(SourceFileLoader):
    """Loads a file that used to be a package, so that the package's old modules can be imported by their old names."""

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []
        super().exec_module(module)


class _Moved(MetaPathFinder, Loader):
    """Finds modules by their old names, so that no finder loads them a second time from a moved package's folder."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in _GONE | MOVED.keys() and _others(fullname, path):
            return None
        if fullname in _GONE:
            file = _ROOT / f"{fullname.replace('.', '/')}.py"
            if file.is_file():
                return spec_from_file_location(fullname, file, loader=_OneFile(fullname, str(file)))
            return ModuleSpec(fullname, self, is_package=True)
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if spec.name in _GONE:
            return None  # it is created like any other module
        warnings.warn(f"{spec.name} has moved to {MOVED[spec.name]}", FutureWarning, stacklevel=2)
        module = import_module(MOVED[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ and module.__spec__.loader_state:
            module.__spec__ = module.__spec__.loader_state


if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
    sys.meta_path.insert(0, _Moved())
