"""Modules that have another name today: old names still load, with one warning that tells the new one.

`_TABLE` has a line for each: the old name and the new one. It is no file of its own: data files beside a module are
digested with what reads one of them, and a name changes no result. `python launch/renamed.py FOLDER` writes the new
names into a plugin's files.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

_TABLE = """
grid.sweeps.told grid.sweeps.progress_file
grid.types grid.core.types
grid.errors grid.core.errors
grid.once grid.core.once
grid.seeds grid.core.seeds
grid.strict grid.core.strict
grid.reference grid.core.reference
grid.chains grid.core.chains
grid.text.untrusted grid.core.untrusted
grid.datasets.base grid.core.problem
grid.datasets.cache grid.core.cache
grid.engines.base grid.core.engine
grid.engines.roles grid.core.roles
grid.engines.verdicts grid.core.verdicts
grid.engines.plan_answers grid.core.plan_answers
grid.worlds.base grid.core.world
grid.metrics.metric grid.core.metric
grid.metrics.declared grid.core.declared
grid.retrievers.base grid.core.retriever
grid.planners.base grid.episode.episode
grid.planners.options grid.episode.options
grid.planners.requests grid.episode.requests
grid.planners.progress grid.episode.progress
grid.planners.prompts grid.episode.prompts
grid.planners.judging grid.episode.judging
grid.planners.again grid.episode.again
grid.planners.view grid.episode.view
grid.planners.acting grid.episode.acting
grid.planners.search.tree grid.episode.tree
grid.metrics.plan_judging grid.episode.plan_judging
grid.metrics.plan_prompts grid.episode.plan_prompts
grid.metrics.plan_text grid.episode.plan_text
grid.metrics.chains grid.episode.chains
grid.planners.asking grid.episode.asking
grid.planners.refusing grid.episode.refusing
grid.planners.drafting grid.episode.drafting
grid.planners.planning grid.episode.planning
grid.planners.answering grid.episode.answering
grid.planners.turns grid.episode.turns
grid.planners.outline grid.episode.outline
grid.runner.build grid.settings.build
grid.runner.make grid.settings.make
grid.runner.check grid.settings.check
grid.runner.plan grid.settings.plan
grid.runner.prices grid.settings.prices
grid.runner.config grid.settings.config
grid.runner.caps grid.settings.caps
grid.runner.fitting grid.settings.fitting
grid.runner.ordering grid.settings.ordering
grid.runner.roles grid.settings.roles
grid.runner.remembered grid.settings.remembered
grid.runner.pooled grid.settings.pooled
grid.runner.solved grid.settings.solved
grid.runner.turns grid.settings.turns
grid.runner.keeping grid.settings.keeping
grid.runner.plain_values grid.settings.plain_values
grid.runner.cell grid.settings.setting
grid.runner.asked_once grid.roles.asked_once
grid.runner.customer grid.roles.customer
grid.runner.evaluation grid.roles.evaluation
grid.runner.grounding grid.roles.grounding
grid.runner.simulation grid.roles.simulation
grid.runner.audit grid.roles.audit
grid.runner.comparing grid.roles.comparing
grid.runner.run grid.cells.run
grid.runner.environment grid.cells.environment
grid.runner.rows grid.cells.rows
grid.runner.case_rows grid.cells.case_rows
grid.runner.tree_rows grid.cells.tree_rows
grid.runner.attempts grid.cells.attempts
grid.runner.transcripts grid.cells.transcripts
grid.runner.costs grid.cells.costs
grid.runner.deadline grid.cells.deadline
grid.runner.endings grid.cells.endings
grid.runner.expected grid.cells.expected
grid.runner.failures grid.cells.failures
grid.runner.identity grid.cells.identity
grid.runner.pilot grid.cells.pilot
grid.runner.capped grid.cells.capped
grid.runner.forecast grid.cells.forecast
grid.runner.limits grid.cells.limits
grid.runner.batch grid.cluster.batch
grid.runner.worker grid.cluster.worker
grid.runner.lanes grid.cluster.lanes
grid.runner.pilot_batch grid.cluster.pilot_batch
grid.runner.signs grid.cluster.signs
grid.runner.meters grid.cluster.meters
grid.runner.probing grid.cluster.probing
grid.runner.cluster grid.cluster.connection
grid.replicas.answering grid.cluster.answering
grid.replicas.client grid.cluster.client
grid.replicas.fleet grid.cluster.fleet
grid.replicas.gpus grid.cluster.gpus
grid.replicas.metrics grid.cluster.metrics
grid.replicas.pool grid.cluster.pool
grid.replicas.ready grid.cluster.ready
grid.replicas.replica grid.cluster.replica
grid.datasets.slate.construct.__main__ grid.synthesis.slate.__main__
grid.datasets.slate.construct.asking grid.synthesis.slate.asking
grid.datasets.slate.construct.by_queries grid.synthesis.slate.by_queries
grid.datasets.slate.construct.config grid.synthesis.slate.config
grid.datasets.slate.construct.grounding grid.synthesis.slate.grounding
grid.datasets.slate.construct.items grid.synthesis.slate.items
grid.datasets.slate.construct.journal grid.synthesis.slate.journal
grid.datasets.slate.construct.merging grid.synthesis.slate.merging
grid.datasets.slate.construct.nearby grid.synthesis.slate.nearby
grid.datasets.slate.construct.outcomes grid.synthesis.slate.outcomes
grid.datasets.slate.construct.outlines grid.synthesis.slate.outlines
grid.datasets.slate.construct.pipeline grid.synthesis.slate.pipeline
grid.datasets.slate.construct.plans grid.synthesis.slate.plans
grid.datasets.slate.construct.queries grid.synthesis.slate.queries
grid.datasets.slate.construct.rules grid.synthesis.slate.rules
grid.datasets.slate.construct.shapes grid.synthesis.slate.shapes
grid.datasets.slate.construct.substeps grid.synthesis.slate.substeps
grid.datasets.slate.construct.tables grid.synthesis.slate.tables
grid.datasets.slate.construct.tools grid.synthesis.slate.tools
grid.datasets.slate.construct.wishes grid.synthesis.slate.wishes
grid.datasets.slate.construct grid.synthesis.slate
launch.api grid.sweeps.api
launch.arguments grid.sweeps.arguments
launch.command grid.sweeps.command
launch.composing grid.sweeps.composing
launch.dry_run grid.sweeps.dry_run
launch.folders grid.sweeps.folders
launch.helping grid.sweeps.helping
launch.in_process grid.sweeps.in_process
launch.jobs grid.sweeps.jobs
launch.metrics grid.sweeps.metrics
launch.plugins grid.sweeps.plugins
launch.progress grid.sweeps.progress
launch.quoting grid.sweeps.quoting
launch.recording grid.sweeps.recording
launch.refusals grid.sweeps.refusals
launch.session grid.sweeps.session
launch.spending grid.sweeps.spending
launch.stand_ins grid.sweeps.stand_ins
launch.summary grid.sweeps.summary
launch.told grid.sweeps.progress_file
grid.datasets.hotpotqa.searched grid.datasets.hotpotqa.dataset
grid.metrics.repeats grid.metrics.stepwise
grid.cells.failures grid.cells.run
grid.sweeps.stand_ins grid.sweeps.jobs
grid.datasets.mcp.folders grid.datasets.mcp.dataset
grid.cells.case_rows grid.cells.run
analysis.branching.queries analysis.branching.sheets
grid.engines.vllm.offspring grid.engines.vllm.start
grid.worlds.kopl.wording grid.worlds.kopl.functions
grid.datasets.kqa.validation grid.datasets.kqa.dataset
grid.worlds.kopl.concepts grid.worlds.kopl.reading
grid.datasets.apb_synthetic.measuring grid.datasets.apb_synthetic.dataset
analysis.viewer.asked analysis.viewer.pages
grid.planners.search.plateau grid.planners.search.rewarded
grid.worlds.sparql.expecting grid.worlds.sparql.world
grid.settings.caps grid.settings.check
grid.settings.turns grid.settings.plan
grid.datasets.constants grid.datasets.question_answering
grid.datasets.apb_synthetic.contradictions grid.datasets.apb_synthetic.build
launch.benchmarks.layers launch.benchmarks.throughput
grid.engines.lexical.reflecting grid.engines.lexical.engine
grid.datasets.stabletoolbench.server grid.datasets.stabletoolbench.dataset
grid.cluster.probing grid.cluster.fleet
grid.datasets.apibench.world grid.datasets.apibench.dataset
grid.planners.thinking grid.planners.react
grid.worlds.tau2.arithmetic grid.worlds.tau2.running
grid.worlds.sparql.resolving grid.worlds.sparql.world
grid.cells.identity grid.cells.run
grid.metrics.trajectory grid.metrics.stepwise
grid.sweeps.spending grid.sweeps.session
grid.datasets.callstrings grid.datasets.ultratool
grid.datasets.tau2.tools grid.datasets.tau2.dataset
analysis.failures.shares analysis.failures.sheets
grid.engines.lexical.bm25 grid.engines.lexical.engine
grid.datasets.freebase.files grid.datasets.freebase.dataset
grid.worlds.mcp.results grid.worlds.mcp.world
grid.datasets.traject_bench.outputs grid.datasets.traject_bench.world
grid.worlds.units grid.worlds.equivalence
grid.engines.plan_schema grid.engines.answer_schema
analysis.power.moments analysis.power.claims
grid.planners.tool_chain grid.planners.holistic
grid.engines.http.strict grid.engines.http.chat
launch.benchmarks.gpu_replica launch.benchmarks.gpu
analysis.failures.plans analysis.failures.rules
analysis.comparison.changes analysis.comparison.sheets
grid.datasets.function_tools grid.datasets.functions
grid.datasets.stabletoolbench.judging grid.datasets.stabletoolbench.dataset
grid.engines.simulated.plan_judge grid.engines.simulated.engine
grid.episode.plan_text grid.episode.plan_judging
grid.planners.search.scores grid.planners.search.kernel
analysis.calibration.against analysis.calibration.sheets
grid.sweeps.recording grid.sweeps.session
grid.datasets.traject_bench.examine grid.datasets.traject_bench.dataset
grid.cells.tree_rows grid.cells.run
analysis.viewer.guard analysis.viewer.app
analysis.search.passes analysis.search.sheets
grid.settings.solved grid.settings.build
grid.datasets.tau2.scoring grid.datasets.tau2.dataset
grid.robustness.synonyms grid.robustness.naming
grid.worlds.sparql.building grid.worlds.sparql.world
grid.worlds.scenes.reckoning grid.worlds.scenes.world
launch.pairs launch.comparing
grid.datasets.kqa.generate grid.datasets.kqa.dataset
grid.cells.capped grid.cells.pilot
grid.datasets.apb.steps grid.datasets.apb.records
grid.datasets.apb.tools grid.datasets.apb.records
analysis.inspecting.messages analysis.inspecting.samples
analysis.viewer.calls analysis.viewer.episodes
grid.datasets.traject_bench.tools grid.datasets.traject_bench.dataset
grid.datasets.mcp.tasks grid.datasets.mcp.dataset
analysis.viewer.trees analysis.viewer.pages
launch.benchmarks.null_search launch.benchmarks.search
analysis.calibration.figures analysis.calibration.drawings
grid.worlds.scenes.making grid.worlds.scenes.world
grid.engines.simulated.theory grid.engines.simulated.engine
grid.worlds.moments grid.worlds.equivalence
grid.datasets.bfcl.conversation grid.datasets.bfcl.multi_turn
grid.worlds.kopl.expecting grid.worlds.kopl.world
grid.worlds.programs.breaking grid.worlds.programs.mutations
grid.datasets.restbench.reference grid.datasets.restbench.dataset
grid.datasets.apibench.tools grid.datasets.apibench.dataset
grid.datasets.freebase.names grid.datasets.freebase.witness
grid.datasets.slate.baselines grid.datasets.slate.card
grid.datasets.mnms.world grid.datasets.mnms.dataset
analysis.heatmaps analysis.drawings
grid.datasets.stabletoolbench.recorded grid.datasets.stabletoolbench.dataset
grid.datasets.apibench.scorer grid.datasets.apibench.dataset
grid.datasets.traject_bench.world grid.datasets.traject_bench.dataset
grid.datasets.bfcl.single_turn grid.datasets.bfcl.dataset
grid.worlds.search.reasoning grid.worlds.search.readers
grid.worlds.programs.drafts grid.worlds.programs.mutations
grid.datasets.workbench.records grid.datasets.workbench.dataset
grid.engines.transformers.forest grid.engines.transformers.model
grid.engines.transformers.cache grid.engines.transformers.model
grid.datasets.hotpotqa.pools grid.datasets.hotpotqa.dataset
grid.datasets.hotpotqa.kept grid.datasets.hotpotqa.dataset
grid.synthesis.slate.grounding grid.synthesis.slate.by_queries
launch.benchmarks.nodes launch.benchmarks.chaos
launch.benchmarks.victims launch.benchmarks.chaos
launch.benchmarks.sparql_graphs launch.benchmarks.sparql
launch.benchmarks.viewer_rows launch.benchmarks.viewer
grid.datasets.freebase.attacks grid.datasets.freebase.stats
grid.episode.plan_prompts grid.episode.plan_judging
grid.engines.lexical.plans grid.engines.lexical.engine
launch.pilots launch.power_table
analysis.failures.pairing analysis.failures.rules
grid.datasets.gta.records grid.datasets.gta.dataset
grid.worlds.programs.faults grid.worlds.programs.scoring
launch.benchmarks.kopl_worlds launch.benchmarks.kopl
grid.engines.http.token_server grid.engines.http.engine
grid.datasets.mnms.metrics grid.datasets.mnms.dataset
grid.datasets.restbench.spec grid.datasets.restbench.dataset
grid.datasets.freebase.noise grid.datasets.freebase.witness
analysis.inspecting.samples analysis.inspecting.logs
analysis.inspecting.texts analysis.inspecting.logs
grid.worlds.programs.attempts grid.worlds.programs.scoring
grid.worlds.kopl.errors grid.worlds.kopl.values
grid.worlds.kopl.glossary grid.worlds.kopl.values
grid.worlds.kopl.results grid.worlds.kopl.queries
grid.worlds.mcp.process grid.worlds.mcp.session
grid.worlds.mcp.server grid.worlds.mcp.session
grid.worlds.mcp.listing grid.worlds.mcp.session
grid.worlds.programs.describing grid.worlds.programs.model
grid.worlds.programs.rules grid.worlds.programs.model
grid.worlds.programs.values grid.worlds.programs.model
grid.worlds.programs.resolving grid.worlds.programs.search
grid.worlds.programs.universe grid.worlds.programs.world
grid.worlds.rest.response grid.worlds.rest.world
grid.worlds.rest.endpoint grid.worlds.rest.world
grid.worlds.scenes.given grid.worlds.scenes.scene
grid.worlds.scenes.seeing grid.worlds.scenes.scene
grid.worlds.scenes.web grid.worlds.scenes.tools
grid.worlds.scenes.code grid.worlds.scenes.tools
grid.worlds.search.extraction grid.worlds.search.readers
grid.worlds.search.corpus grid.worlds.search.readers
grid.worlds.sparql.literals grid.worlds.sparql.graph
grid.worlds.sparql.store grid.worlds.sparql.graph
grid.worlds.sparql.results grid.worlds.sparql.graph
grid.worlds.sparql.expressions grid.worlds.sparql.queries
grid.worlds.sparql.reading grid.worlds.sparql.programs
grid.worlds.tau2.databases grid.worlds.tau2.package
grid.worlds.tau2.state grid.worlds.tau2.package
grid.worlds.tau2.tasks grid.worlds.tau2.package
grid.worlds.tau2.running grid.worlds.tau2.package
grid.worlds.tau2.reward grid.worlds.tau2.world
grid.worlds.workbench.tool grid.worlds.workbench.table
grid.worlds.workbench.matching grid.worlds.workbench.table
grid.worlds.recording grid.worlds.layers
grid.worlds.rejecting grid.worlds.layers
grid.worlds.retrieving grid.worlds.layers
grid.engines.http.beside grid.engines.http.chat
grid.engines.http.content grid.engines.http.chat
grid.engines.http.counts grid.engines.http.chat
grid.engines.http.reasons grid.engines.http.chat
grid.engines.lexical.needs grid.engines.lexical.arguments
grid.engines.lexical.points grid.engines.lexical.arguments
grid.engines.lexical.remembering grid.engines.lexical.arguments
grid.engines.lexical.extraction grid.engines.lexical.arguments
grid.engines.simulated.deciding grid.engines.simulated.policy
grid.engines.simulated.refining grid.engines.simulated.plans
grid.engines.transformers.batches grid.engines.transformers.engine
grid.engines.plan_writing grid.engines.places
grid.engines.sources grid.engines.wheels
grid.engines.own_log grid.engines.hosted
grid.engines.progress grid.engines.hosted
grid.engines.probe grid.engines.hosted
grid.datasets.apb_synthetic.expansion grid.datasets.apb_synthetic.stock
grid.datasets.apb_synthetic.tools grid.datasets.apb_synthetic.stock
grid.datasets.apb_synthetic.judged grid.datasets.apb_synthetic.records
grid.datasets.apb_synthetic.found grid.datasets.apb_synthetic.records
grid.datasets.apb_synthetic.costs grid.datasets.apb_synthetic.build
grid.datasets.freebase.drawing grid.datasets.freebase.planting
grid.datasets.gta.answers grid.datasets.gta.dataset
grid.datasets.gta.metrics grid.datasets.gta.dataset
grid.datasets.gta_generated.stock grid.datasets.gta_generated.draft
grid.datasets.hotpotqa.spans grid.datasets.hotpotqa.parts
grid.datasets.hotpotqa.records grid.datasets.hotpotqa.parts
grid.datasets.kqa.clauses grid.datasets.kqa.phrases
grid.datasets.kqa.rules grid.datasets.kqa.program
grid.datasets.kqa.trees grid.datasets.kqa.program
grid.datasets.kqa.stock grid.datasets.kqa.world
grid.datasets.bfcl.classes grid.datasets.bfcl.checker
grid.datasets.tau2.users grid.datasets.tau2.records
grid.datasets.stabletoolbench.names grid.datasets.stabletoolbench.records
grid.datasets.mnms.tools grid.datasets.mnms.records
grid.datasets.json_lists grid.datasets.files
grid.datasets.balance grid.datasets.sampling
grid.datasets.examining grid.datasets.grading
grid.datasets.grounding grid.datasets.grading
grid.planners.search.evaluating grid.planners.search.kernel
grid.planners.search.gate grid.planners.search.kernel
grid.planners.search.planner grid.planners.search.kernel
grid.planners.memory grid.planners.remembering
grid.planners.reflecting grid.planners.reflexion
grid.store.joined grid.store.scanning
grid.settings.ordering grid.settings.plan
grid.settings.plain_values grid.settings.make
grid.cluster.meters grid.cluster.metrics
grid.cluster.pilot_batch grid.cluster.batch
grid.sweeps.helping grid.sweeps.arguments
grid.sweeps.quoting grid.sweeps.arguments
grid.sweeps.refusals grid.sweeps.arguments
grid.sweeps.in_process grid.sweeps.session
grid.sweeps.plugins grid.sweeps.composing
grid.text.verdicts grid.text.answers
grid.text.refusals grid.text.answers
grid.text.short_answers grid.text.answers
grid.cells.transcripts grid.cells.rows
grid.cells.forecast grid.cells.pilot
grid.cells.endings grid.cells.costs
grid.core.declared grid.core.metric
grid.core.once grid.core.cache
grid.robustness.matching grid.robustness.schema_matching
grid.metrics.replaced grid.metrics.scores
grid.metrics.plan_shape grid.metrics.scores
grid.episode.turns grid.episode.prompts
grid.episode.drafting grid.episode.planning
grid.episode.chains grid.episode.planning
grid.episode.refusing grid.episode.acting
analysis.viewer.filters analysis.viewer.addresses
analysis.viewer.links analysis.viewer.addresses
analysis.viewer.failing analysis.viewer.matrix
analysis.failures.cached analysis.failures.cells
analysis.published.combined analysis.published.beside
analysis.published.decisions analysis.published.coefficients
analysis.search.sizes analysis.search.cells
analysis.power.needed analysis.power.plans
analysis.power.simulation analysis.power.plans
analysis.comparison.drawings analysis.comparison.sheets
analysis.comparison.queries analysis.comparison.measures
analysis.trajectory.figures analysis.trajectory.metrics
analysis.varied.cells analysis.varied.sheets
analysis.varied.drawings analysis.varied.sheets
analysis.frontier.panel analysis.frontier.points
analysis.controls analysis.formula
analysis.gee analysis.regression
analysis.made_up analysis.provenance
analysis.significance analysis.intervals
analysis.apart analysis.load.frames
grid.worlds.sparql.errors grid.worlds.sparql.queries
grid.worlds.sparql.lookups grid.worlds.sparql.tools
grid.engines.simulated.difficulty grid.engines.simulated.plans
grid.engines.simulated.calls grid.engines.simulated.plans
grid.datasets.apb_synthetic.checks grid.datasets.apb_synthetic.stats
grid.datasets.apb_synthetic.rules grid.datasets.apb_synthetic.stats
grid.datasets.slate.cases grid.datasets.slate.dataset
analysis.levels analysis.design
grid.engines.http.sampler grid.engines.http.client
grid.pools.distractors grid.pools.grown
grid.robustness.similarity grid.robustness.schema_matching
grid.engines.recovering grid.engines.places
grid.engines.names grid.engines.choice
grid.engines.spans grid.engines.hosted
grid.cells.limits grid.cells.deadline
grid.datasets.slate.checking grid.datasets.slate.stats
analysis.search.anytime analysis.search.cells
analysis.calibration.decisions analysis.calibration.measures
analysis.calibration.drawings analysis.calibration.sheets
analysis.failures.figures analysis.failures.sheets
analysis.comparison.measures analysis.comparison.runs
analysis.plans.sheets analysis.plans.tables
analysis.power.claims analysis.power.latent
analysis.power.doubts analysis.power.plans
analysis.viewer.places analysis.viewer.addresses
analysis.agreement.labels analysis.agreement.measures
analysis.agreement.sheets analysis.agreement.plans
analysis.unbounded analysis.unknowns
analysis.styles analysis.page.drawing
analysis.branching.sheets analysis.branching.mechanisms
analysis.trajectory.scaling analysis.trajectory.metrics
analysis.search.pass_sheets analysis.search.sheets
analysis.plans.efficiency analysis.plans.tasks
analysis.plans.refinement analysis.plans.tasks
analysis.plans.extraneous analysis.plans.tasks
analysis.plans.stepwise analysis.plans.tasks
analysis.patterns analysis.kinds
analysis.branching.mechanisms analysis.branches
analysis.trajectory.metrics analysis.trajectories
analysis.varied.sheets analysis.two_numbers
analysis.inspecting.logs analysis.inspect_logs
analysis.plans.tasks analysis.plans.tables
analysis.kinds analysis.tool_use
analysis.table analysis.page.table
analysis.render analysis.page.render
analysis.html analysis.page.html
analysis.intervals analysis.stats.intervals
analysis.agreement.measures analysis.stats.agreement
analysis.calibration.binned analysis.stats.calibration
analysis.calibration.selective analysis.stats.selective
analysis.power.latent analysis.stats.latent
analysis.power.pilot analysis.stats.pilot
analysis.power.plans analysis.stats.power
analysis.spec analysis.stats.spec
analysis.formula analysis.stats.formula
analysis.design analysis.stats.design
analysis.queries analysis.load.queries
analysis.baselines analysis.load.baselines
analysis.unknowns analysis.load.unknowns
analysis.provenance analysis.load.provenance
analysis.planted analysis.load.planted
analysis.partial analysis.load.partial
analysis.left_out analysis.load.left_out
analysis.spending analysis.load.spending
analysis.grading analysis.load.grading
analysis.served analysis.load.served
analysis.unreadable analysis.load.unreadable
analysis.heading analysis.load.heading
analysis.results analysis.tables.success
analysis.pass_k analysis.tables.pass_k
analysis.sheets analysis.tables.costs
analysis.differences analysis.tables.differences
analysis.measures analysis.tables.measures
analysis.measured analysis.tables.measured
analysis.by_value analysis.tables.by_value
analysis.disturbances analysis.tables.disturbances
analysis.replacements analysis.tables.replacements
analysis.remembered analysis.tables.remembered
analysis.restoration analysis.tables.restoration
analysis.win_rates analysis.tables.win_rates
analysis.ranks analysis.tables.ranks
analysis.rewards analysis.tables.rewards
analysis.tool_use analysis.tables.tool_use
analysis.trajectories analysis.tables.trajectories
analysis.branches analysis.tables.branches
analysis.thresholds analysis.tables.thresholds
analysis.two_numbers analysis.tables.two_numbers
analysis.regression analysis.tables.regression
analysis.calibration.measures analysis.tables.calibrated
analysis.calibration.sheets analysis.tables.calibration
analysis.failures.cells analysis.tables.failure_cells
analysis.failures.values analysis.tables.failure_values
analysis.failures.rules analysis.tables.failure_rules
analysis.failures.read analysis.tables.failed
analysis.failures.sheets analysis.tables.failures
analysis.frontier.points analysis.tables.frontier_points
analysis.frontier.drawings analysis.tables.frontier
analysis.plans.cells analysis.tables.plan_cells
analysis.plans.sheet analysis.tables.plan_sheet
analysis.plans.execution analysis.tables.plan_execution
analysis.plans.tables analysis.tables.plans
analysis.search.cells analysis.tables.search_cells
analysis.search.comparing analysis.tables.comparing
analysis.search.sheets analysis.tables.search
analysis.published.files analysis.papers.files
analysis.published.beside analysis.papers.beside
analysis.published.order analysis.papers.order
analysis.published.coefficients analysis.papers.coefficients
analysis.published.sheets analysis.papers.published
analysis.agreement.plans analysis.papers.agreement
analysis.study analysis.papers.study
analysis.lacking analysis.papers.lacking
analysis.horizon analysis.papers.horizon
analysis.reading analysis.papers.reading
analysis.examples analysis.papers.examples
analysis.comparison.runs analysis.compare.runs
analysis.comparison.sheets analysis.compare.tables
analysis.comparison.report analysis.compare.report
analysis.drawings analysis.figures.drawings
analysis.plans.figures analysis.figures.plans
analysis.search.figures analysis.figures.search_drawn
analysis.search.drawings analysis.figures.search
analysis.tables.costs analysis.tables.rates
analysis.tables.replacements analysis.tables.disturbances
analysis.tables.pass_k analysis.tables.success
analysis.tables.failure_values analysis.tables.failure_cells
analysis.tables.plan_sheet analysis.tables.plan_cells
analysis.tables.comparing analysis.tables.search_cells
analysis.stats.pilot analysis.stats.latent
analysis.papers.reading analysis.papers.horizon
analysis.papers.lacking analysis.papers.study
analysis.figures.search_drawn analysis.figures.search
analysis.load.heading analysis.load.provenance
analysis.tables.differences analysis.tables.rates
analysis.tables.measured analysis.tables.measures
analysis.tables.ranks analysis.tables.win_rates
analysis.tables.tool_use analysis.tables.trajectories
analysis.tables.frontier_points analysis.tables.frontier
analysis.stats.formula analysis.stats.spec
analysis.stats.selective analysis.stats.calibration
analysis.papers.examples analysis.papers.study
analysis.papers.coefficients analysis.papers.published
analysis.load.left_out analysis.load.partial
analysis.load.served analysis.load.answers
analysis.load.unreadable analysis.load.answers
analysis.load.planted analysis.load.provenance
analysis.compare.report analysis.compare.tables
analysis.tables.plan_execution analysis.tables.plan_cells
analysis.inspect_logs analysis.viewer.inspect_logs
grid.datasets.alternatives grid.datasets.parameters
grid.datasets.sampling grid.datasets.dataset
grid.datasets.nearest grid.datasets.question_answering
grid.datasets.apb.records grid.datasets.apb_records
grid.datasets.apb.dataset grid.datasets.apb
grid.datasets.apb_synthetic.draft grid.datasets.apb_synthetic.build
grid.datasets.apb_synthetic.records grid.datasets.apb_synthetic.stock
grid.datasets.apb_synthetic.draw grid.datasets.apb_synthetic.dataset
grid.worlds.programs.steps grid.worlds.programs.world
grid.datasets.apibench.trees grid.datasets.apibench_trees
grid.datasets.apibench.dataset grid.datasets.apibench
grid.datasets.bfcl.records grid.datasets.bfcl_records
grid.datasets.bfcl.checker grid.datasets.bfcl_records
grid.datasets.freebase.denotation grid.datasets.freebase.facts
grid.datasets.freebase.literals grid.datasets.freebase.facts
grid.datasets.freebase.ontology grid.datasets.freebase.facts
grid.datasets.freebase.planting grid.datasets.freebase.records
grid.datasets.freebase.decoys grid.datasets.freebase.shards
grid.datasets.freebase.graphs grid.datasets.freebase.dataset
grid.datasets.gta.dataset grid.datasets.gta
grid.datasets.gta_generated.counting grid.datasets.gta_generated.draft
grid.datasets.hotpotqa.synthesis grid.datasets.hotpotqa.parts
grid.datasets.hotpotqa.baselines grid.datasets.hotpotqa.parts
grid.worlds.search.readers grid.worlds.readers
grid.worlds.search.world grid.worlds.search
grid.datasets.kqa.words grid.datasets.kqa.world
grid.datasets.kqa.records grid.datasets.kqa.program
grid.datasets.kqa.facts grid.datasets.kqa.program
grid.datasets.kqa.phrases grid.datasets.kqa.questions
grid.worlds.kopl.sets grid.worlds.kopl.values
grid.worlds.kopl.base grid.worlds.kopl.values
grid.worlds.kopl.filters grid.worlds.kopl.queries
grid.worlds.kopl.programs grid.worlds.kopl.functions
grid.worlds.kopl.reading grid.worlds.kopl.world
grid.worlds.mcp.session grid.datasets.mcp_session
grid.datasets.mcp.tools grid.datasets.mcp_session
grid.datasets.mcp.dataset grid.datasets.mcp
grid.worlds.mcp.world grid.datasets.mcp
grid.datasets.mnms.records grid.datasets.mnms_records
grid.datasets.mnms.dataset grid.datasets.mnms
grid.datasets.slate.stock grid.datasets.slate.shop
grid.datasets.slate.values grid.datasets.slate.shop
grid.datasets.slate.outcomes grid.datasets.slate.drafts
grid.datasets.slate.expressions grid.datasets.slate.drafts
grid.datasets.slate.records grid.datasets.slate.drafts
grid.datasets.slate.library grid.datasets.slate.dataset
grid.datasets.slate.card grid.datasets.slate.export
grid.datasets.slate.standalone grid.datasets.slate.export
grid.datasets.stabletoolbench.records grid.datasets.stabletoolbench_records
grid.datasets.stabletoolbench.dataset grid.datasets.stabletoolbench
grid.worlds.tau2.package grid.datasets.tau2.package
grid.worlds.talking grid.worlds.simulated
grid.worlds.sparql.endpoint grid.worlds.sparql.world
grid.worlds.workbench.table grid.datasets.workbench_table
grid.worlds.workbench.analytics grid.datasets.workbench_table
grid.planners.sh grid.planners.horizon
grid.planners.fh grid.planners.horizon
grid.planners.retry grid.planners.reflexion
grid.planners.search.rewarded grid.planners.tooltree
grid.planners.egb_tree grid.planners.egb
grid.planners.search.kernel grid.planners.search
grid.robustness.tools_strict grid.robustness.schema_matching
grid.robustness.tools_forgiving grid.robustness.schema_matching
grid.robustness.composites grid.robustness.costs
grid.robustness.naming grid.robustness.offering
grid.metrics.usage grid.metrics.failure_patterns
grid.synthesis.slate.items grid.synthesis.asking
grid.synthesis.slate.journal grid.synthesis.asking
grid.synthesis.slate.asking grid.synthesis.asking
grid.synthesis.slate.rules grid.synthesis.asking
grid.synthesis.slate.config grid.synthesis.config
grid.synthesis.slate.shapes grid.synthesis.config
grid.synthesis.slate.plans grid.synthesis.plans
grid.synthesis.slate.tools grid.synthesis.tools
grid.synthesis.slate.queries grid.synthesis.queries
grid.synthesis.slate.wishes grid.synthesis.queries
grid.synthesis.slate.outlines grid.synthesis.queries
grid.synthesis.slate.substeps grid.synthesis.substeps
grid.synthesis.slate.outcomes grid.synthesis.substeps
grid.synthesis.slate.by_queries grid.synthesis.by_queries
grid.synthesis.slate.merging grid.synthesis.by_queries
grid.synthesis.slate.nearby grid.synthesis.by_queries
grid.synthesis.slate.__main__ grid.synthesis.slate
grid.synthesis.slate.pipeline grid.synthesis.slate
grid.synthesis.slate.tables grid.synthesis.slate
grid.datasets.bfcl.dataset grid.datasets.bfcl
grid.datasets.bfcl.multi_turn grid.datasets.bfcl
grid.datasets.gta_generated.lookups grid.datasets.gta_generated.questions
grid.datasets.gta_generated.pictures grid.datasets.gta_generated.questions
grid.datasets.gta_generated.shelves grid.datasets.gta_generated.questions
grid.datasets.gta_generated.prices grid.datasets.gta_generated.dataset
grid.worlds.scenes.algebra grid.worlds.scenes.world
grid.worlds.rest.world grid.datasets.restbench_world
grid.datasets.restbench.examples grid.datasets.restbench_world
grid.datasets.restbench.dataset grid.datasets.restbench
grid.worlds.tau2.world grid.datasets.tau2.world
grid.datasets.tau2.records grid.datasets.tau2.world
grid.worlds.workbench.calendar grid.datasets.workbench_tools
grid.worlds.workbench.email grid.datasets.workbench_tools
grid.worlds.workbench.customers grid.datasets.workbench_tools
grid.worlds.workbench.projects grid.datasets.workbench_tools
grid.datasets.workbench.dataset grid.datasets.workbench
grid.worlds.workbench.world grid.datasets.workbench
grid.worlds.instances grid.worlds.functions
grid.planners.predicting grid.planners.apb
grid.planners.holistic grid.planners.apb
grid.planners.plan_first grid.planners.apb
grid.planners.stepwise grid.planners.apb
grid.text.plain_yaml grid.text.objects
grid.text.arguments grid.text.references
grid.core.chains grid.core.types
grid.core.cache grid.core.util
grid.core.seeds grid.core.util
grid.core.strict grid.core.util
grid.core.plan_answers grid.core.engine
grid.core.verdicts grid.core.engine
grid.core.roles grid.core.engine
grid.core.retriever grid.core.problem
grid.core.reference grid.core.problem
grid.engines.tokens grid.engines.places
grid.engines.informed grid.engines.hosted
grid.text.chains grid.text.answers
grid.text.misspelling grid.text.calls
grid.engines.simulated.judge grid.engines.simulated.plans
grid.engines.vllm.start grid.engines.vllm.engine
grid.retrievers.embedding grid.retrievers.texts
grid.retrievers.redefined grid.retrievers.scored
grid.pools.base grid.pools.whole
grid.roles.audit grid.roles.evaluation
grid.roles.asked_once grid.roles.simulation
grid.sweeps.progress_file grid.sweeps.progress
grid.sweeps.folders grid.sweeps.jobs
grid.sweeps.command grid.sweeps.arguments
grid.contracts.files grid.contracts.subject
grid.engines.rendering grid.engines.language_model
grid.engines.transformers.grammar grid.engines.transformers.model
grid.sweeps.metrics grid.sweeps.session
grid.sweeps.summary grid.sweeps.session
launch.benchmarks.prompts launch.benchmarks.choose
launch.benchmarks.gpu_model launch.benchmarks.gpu_exact
launch.benchmarks.gpu_masks launch.benchmarks.gpu_exact
launch.benchmarks.gpu_kills launch.benchmarks.gpu
launch.gallery_progress launch.gallery
launch.presets launch.gallery
launch.power_arguments launch.power
launch.comparing launch.win_rate
launch.commits launch.readme
launch.measuring launch.readme
launch.benchmarks.versus launch.benchmarks.overhead
launch.two_runs launch.report
grid.settings.pooled grid.settings.parts
grid.settings.fitting grid.settings.check
grid.settings.keeping grid.settings.setting
grid.settings.prices grid.settings.roles
grid.retrievers.texts grid.retrievers.scored
launch.benchmarks.judging launch.agreement
"""


def table() -> Mapping[str, str]:
    """Today's names by old ones; what moved twice is found by either."""
    found = dict(line.split() for line in _TABLE.strip().splitlines())
    for old, new in found.items():
        while new in found:
            new = found[new]
        found[old] = new
    return found


MOVED = table()


def today(name: str) -> str:
    """A dotted name of something in a module, by the module's name of today."""
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
grid.robustness.tools_forgiving.ToolsForgiving
grid.robustness.tools_strict.ToolsStrict
"""
FIRST = {today(name): name for name in _CLASSES.split()}
"""Classes that configs name, whose modules moved since rows have them: in ids and rows they have these names."""


def named_today(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config in whose `_target_`s modules have their names of today."""
    return _named(config, today)


def named_first(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config in whose `_target_`s classes have the names that ids and rows have of them."""
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
"""Packages of which every module moved; some are one file now."""


class _OneFile(SourceFileLoader):
    """Of a file that was a package: its modules are looked for, by their old names."""

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []
        super().exec_module(module)


class _Moved(MetaPathFinder, Loader):
    """Finds modules by their old names, before others would find them again in the folder of a package that moved."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in _GONE:
            file = _ROOT / f"{fullname.replace('.', '/')}.py"
            if file.is_file():
                return spec_from_file_location(fullname, file, loader=_OneFile(fullname, str(file)))
            return ModuleSpec(fullname, self, is_package=True)
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if spec.name in _GONE:
            return None  # as any module is made
        warnings.warn(f"{spec.name} is {MOVED[spec.name]} now", FutureWarning, stacklevel=2)
        module = import_module(MOVED[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ and module.__spec__.loader_state:
            module.__spec__ = module.__spec__.loader_state


if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
    sys.meta_path.insert(0, _Moved())
