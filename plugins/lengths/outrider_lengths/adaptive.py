"""The `adaptive` draft length: k from acceptance and cost, chosen anew in every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as ListOf
from pathlib import Path

import attrs
from attrs import validators
from outrider import (
    NO_DRAFT,
    Assembly,
    Decision,
    Draft,
    DraftLength,
    Pipeline,
    Runtime,
    Sequence,
    Step,
)

from outrider_lengths.acceptance import UNKNOWN, Acceptance, Given, Lean, Leaning, outcome
from outrider_lengths.calibration import calibrated
from outrider_lengths.costs import Costs, CostTable
from outrider_lengths.gain import allocate, best_length, expected_tokens
from outrider_lengths.leaves import leaves
from outrider_lengths.probing import LONG_SHOT, Prober
from outrider_lengths.watching import Watch

_LOCAL = {"weight": 5.0, "keep": 0.97}
"""Memory of one sequence: about its last 30 outcomes a position."""
_COMMON = {"weight": 4.0, "keep": 0.995}
"""Memory across requests: about the last 200 outcomes a position."""
_TEXT = {"spread": 0.7, "keep": 0.97}
"""How much texts differ in how well drafts of one kind hold, as the deviation of the logarithm of
the odds (0.5 to 0.8 make recorded texts likeliest), and memory: about a text's last 20 drafts,
with what `_RELAX` takes."""
_RELAX = 0.98
"""What is left of a sequence's memory after a step, on top of what new evidence replaces."""
_WORTH_A_LONG_SHOT = 1.1
"""What certain drafts would have to bring, against the best known length."""
_PAUSE = 32
"""Steps after which a drafter that does not pay is thought about again: on a cold cache the
thought itself takes some per cent of a small model's step."""
_LONGEST_PAUSE = 128
"""Each thought without a change doubles the pause, up to here; evidence ends it."""
_DULL = 512
"""Steps for which texts that have shown nothing themselves leave alone what did not pay for one
like them; evidence from any text ends it as well."""
_TRUST = 4.0
"""Plain steps by which a drafter's gains in a text can outweigh later losses."""
_PATIENCE = 2.0
"""Plain steps that it may lose before it is left alone for a while."""
_SETTLING = 6
"""Plain steps at the start of a request that say nothing of others: on cold caches the first of
them takes three times as long, the fifth still 7 % longer."""
_SETTLING_BATCHES = 4
"""The same for steps with drafts, which suffer less. Where all answers are short there are no
others, and a table that is wrong has to be noticed there as well."""
_GRACE = 16
"""Plain steps' worth of failed tries that a pipeline may start with."""

_NONE = Decision(0, 0.0)
_NOTHING = (0,)
_ALL = -1
"""The grade that stands for all grades of a drafter."""

Key = tuple[str, int]
"""Drafter and grade of evidence; grade 0: all its drafts."""


@attrs.frozen
class AdaptiveConfig:
    """Options of the `adaptive` draft length."""

    max: int = attrs.field(default=8, validator=validators.ge(1))
    """The most tokens to draft."""
    padding: int = attrs.field(default=0, validator=validators.ge(0))
    """Rows that a verify batch may have more than it needs, where more cost less; each takes a
    plane of the snapshot ring."""
    probe: float = attrs.field(default=0.01, validator=[validators.ge(0.0), validators.lt(1.0)])
    """Share of the time that tries may take while drafting does not pay; 0: as few as possible."""
    folder: Path | None = None
    """Where measured costs are kept; null: the user's cache."""


@attrs.frozen
class _Try:
    """A longer draft than seemed best."""

    best: int
    length: int
    needed: int
    """Drafts that have to hold for it to have succeeded."""
    prober: Prober
    watched: bool
    """Whether what is drafted beyond `best` is not verified."""

    def held(self, accepted: int, drafted: int) -> bool:
        """Whether it has succeeded."""
        return accepted >= min(drafted, self.needed)


@attrs.define
class _State:
    """What is known of one sequence."""

    acceptance: dict[Key, Acceptance]
    plan: dict[str, int]
    """The length chosen for each drafter in this step."""
    probing: dict[Key, _Try]
    """What this step tries."""
    steps: int = 0
    """Steps of the request so far."""
    leans: dict[str, Lean] = attrs.field(factory=dict)
    """How much better or worse than usual the drafts of each drafter hold here."""
    touched: dict[Key, int] = attrs.field(factory=dict)
    """The step up to which what is known has faded."""
    settled: dict[Key, int] = attrs.field(factory=dict)
    """The step until which what does not pay is not thought about again."""
    pauses: dict[Key, int] = attrs.field(factory=dict)
    """How long that is, next time."""
    looked: dict[tuple[str, int, int, int], int] = attrs.field(factory=dict)
    """The step in which a try was last thought about, by prober."""
    balance: dict[str, float] = attrs.field(factory=dict)
    """What drafts from evidence have brought here lately, by drafter, in plain steps."""
    plain: bool = True
    """Whether the step before had no drafts."""
    watch: tuple[Watch, _Try] | None = None
    """The last try, if it is not known yet how it ended."""

    def resting(self, key: Key) -> bool:
        """Whether a grade of a drafter's evidence, or the whole drafter, is left alone now."""
        settled, steps = self.settled, self.steps
        return steps < settled.get(key, 0) or steps < settled.get((key[0], _ALL), 0)

    def settle(self, key: Key) -> None:
        """What does not pay now is left alone for a while."""
        pause = self.pauses.get(key, _PAUSE)
        self.settled[key] = self.steps + pause
        self.pauses[key] = min(2 * pause, _LONGEST_PAUSE)

    def unsettle(self, key: Key) -> None:
        """There is new evidence."""
        self.settled.pop(key, None)
        self.pauses.pop(key, None)


class AdaptiveLength(DraftLength):
    """Maximises expected tokens a unit of time, from measured costs and observed acceptance.

    Costs come from `outrider calibrate`, or from a quick measurement at start, and are corrected
    while decoding. Acceptance is tracked for each sequence, drafter, grade of evidence and
    position, starting from what earlier requests showed. k = 0 is allowed; a drafter that does
    not pay is tried again now and then.
    """

    Config = AdaptiveConfig

    def __init__(self, config: AdaptiveConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: AdaptiveConfig = config
        self._common: dict[Key, Acceptance] = {}
        self._probers: dict[tuple[str, int, int, int], Prober] = {}
        self._chosen: Counter[int] = Counter()
        self._priors: dict[str, Given] = {}
        self._time = 0.0
        """All steps so far, µs."""
        self._wasted: Counter[str] = Counter()
        """Of that, what failed tries of each drafter cost."""
        self._steps = 0
        """All steps so far."""
        self._dull: dict[Key, int] = {}
        """The step until which what did not pay is left alone where nothing is known of it."""

    @property
    def max(self) -> int:
        """The configured maximum."""
        return self.config.max

    @property
    def padding(self) -> int:
        """The configured padding."""
        return self.config.padding

    def open(self, runtime: Runtime) -> None:
        """Learn which drafters there are."""
        self._composed = bool(runtime.drafter.parts)
        self._leaves = leaves(runtime.drafter)
        self._max = runtime.max_draft
        self._costs = Costs(CostTable((1.0,), {}))

    def ready(self, pipeline: Pipeline) -> None:
        """Find measured costs, or measure."""
        if self._max:
            self.start(calibrated(pipeline, self._max, self.config.folder, self.padding))

    def start(self, table: CostTable) -> None:
        """Start from these costs, and from the acceptance that was seen with them."""
        self._costs = Costs(table, self.padding)
        self._priors = {n: Given(rates) for n, rates in table.acceptance.items() if rates}

    def statistics(self) -> dict[str, object]:
        """Chosen lengths, costs, acceptance by drafter and grade, and tries."""
        return {
            "chosen": {str(k): n for k, n in sorted(self._chosen.items())},
            "tries": sum(p.tries for p in self._probers.values()),
            "acceptance": {
                f"{name}/{grade}" if grade else name: [round(a, 3) for a in known.estimate(n)]
                for (name, grade), known in sorted(self._common.items())
                if (n := known.tried)
            },
            **self._costs.table(),
        }

    # --- choosing -----------------------------------------------------------------------------

    def choose(self, sequences: ListOf[Sequence]) -> ListOf[int]:
        """The best length for each sequence; where a cascade decides, the most it may need."""
        if len(sequences) == 1 and self._quiet(sequences[0]):
            if not self._composed:
                self._chosen[0] += 1
            return _NOTHING
        states = [self._state(s) for s in sequences]
        for state in states:
            state.plan.clear()
            state.probing.clear()
        open_end = False
        for drafter in self._leaves:
            if self._composed and drafter.cheap:
                open_end = True
            else:
                self._plan(drafter.name, self._bound(drafter.max_draft), states)
        lengths = [
            self._max if open_end else max(state.plan.values(), default=0) for state in states
        ]
        if not self._composed:
            self._chosen.update(lengths)
        return lengths

    def _quiet(self, sequence: Sequence) -> bool:
        """Whether nobody has anything to propose that is not being left alone."""
        state = self._state(sequence)
        for drafter in self._leaves:
            grade: int | None = 0
            if self._composed and drafter.cheap:
                grade = drafter.prospect(sequence)
                if grade == 0:
                    continue
                if grade is None:
                    return False
            if not state.resting((drafter.name, grade)):
                return False
        state.plan.clear()
        state.probing.clear()
        return True

    def rows(self, needed: int) -> int:
        """The cheapest number of rows."""
        return self._costs.padded(needed)

    def _plan(self, name: str, bound: int, states: ListOf[_State]) -> None:
        alone = states[0] if len(states) == 1 else None
        key = (name, 0)
        if alone is not None and alone.resting(key):
            alone.plan[name] = 0
            return
        rates = [self._known(state, key).estimate(bound) for state in states]
        costs_of_one = self._costs.steps(key, bound)
        if len(states) == 1:
            lengths = [best_length(rates[0], costs_of_one)[0]]
        else:
            n, costs = len(states), self._costs
            lengths = allocate(
                rates, lambda ks: costs.rows(n + sum(ks)) + costs.drafting(name, max(ks))
            )
        for state, k, known in zip(states, lengths, rates, strict=True):
            state.plan[name] = self._explored(state, key, k, known, costs_of_one)
        if alone is not None and not alone.plan[name]:
            self._settle(alone, key)

    def decide(
        self, sequence: Sequence, drafter: str, limit: int, evidence: int = 0
    ) -> Decision | None:
        """The best use of one of a cascade's drafters."""
        state = self._state(sequence)
        planned = state.plan.get(drafter)
        if planned == 0:
            return _NONE
        key = (drafter, evidence if planned is None else 0)
        if planned is None and state.resting(key):
            return _NONE
        costs = self._costs.steps(key, limit)
        rates = self._known(state, key).estimate(limit)
        if planned is None:
            k, rate = best_length(rates, costs)
            k = self._explored(state, key, k, rates, costs)
            if not k:
                self._settle(state, key)
            return Decision(k, rate)
        k = min(planned, limit)
        return Decision(k, expected_tokens(rates, k) / costs[k])

    def _settle(self, state: _State, key: Key) -> None:
        """Leave alone what does not pay; what it was judged by may be what all requests know."""
        state.settle(key)
        # a grade leans on what this text showed of all grades
        if not any(state.acceptance[k].tried for k in {key, (key[0], 0)} if k in state.acceptance):
            self._dull[key] = self._steps + _DULL

    def _cost(self, name: str, k: int) -> float:
        return self._costs.rows(self._costs.padded(1 + k)) + self._costs.drafting(name, k)

    def _explored(
        self, state: _State, key: Key, k: int, rates: ListOf[float], costs: ListOf[float]
    ) -> int:
        """The length `k`, or a longer one where it is time to see whether that has become better.

        More drafts are tried where they would pay if only the next one were certain to hold: as
        many as pay then. Where several would have to be better, that is tried rarely. Where
        drafting costs less than verifying is expected to lose, what is tried is not verified.
        """
        if k >= len(rates) or state.watch is not None:
            return k
        least = 0
        longer = best_length([*rates[:k], 1.0, *rates[k + 1 :]], costs)[0]
        if longer <= k:
            longer, rate = best_length([*rates[:k], *[1.0] * (len(rates) - k)], costs)
            if longer <= k or rate * costs[k] < _WORTH_A_LONG_SHOT * expected_tokens(rates, k):
                return k
            least = LONG_SHOT
        depth = (*key, k, least)
        prober = self._probers.get(depth)
        if prober is None:
            prober = self._probers[depth] = Prober(self.config.probe, least)
        # a share for each, or the tries of a dear drafter would leave a cheap one none
        afforded = self.config.probe * self._time + _GRACE * self._costs.rows(1)
        afforded /= len(self._leaves)
        passed = state.steps - state.looked.get(depth, state.steps - 1)
        state.looked[depth] = state.steps
        if self._wasted[key[0]] > afforded or not prober.due(state.steps == 0 and k == 0, passed):
            return k
        lost = costs[longer] - costs[k] * (
            expected_tokens(rates, longer) / expected_tokens(rates, k)
        )
        watched = self._drafting(key[0], k, longer) < lost
        state.probing[key] = _Try(k, longer, longer if least else k + 1, prober, watched)
        return longer

    def _drafting(self, name: str, k: int, longer: int) -> float:
        """What drafting `longer` instead of `k` tokens costs more."""
        drafting = self._costs.drafting
        return drafting(name, longer) - (drafting(name, k) if k else 0.0)

    def trim(self, sequences: ListOf[Sequence], drafts: ListOf[Draft]) -> ListOf[Draft]:
        """What is tried is watched instead of verified, where that costs less."""
        return [self._trimmed(s, d) for s, d in zip(sequences, drafts, strict=True)]

    def _trimmed(self, sequence: Sequence, draft: Draft) -> Draft:
        state = self._state(sequence)
        if not state.probing or draft.q is not None:
            return draft
        name = draft.source or self._leaves[0].name
        for key in {(name, 0), (name, draft.evidence)}:
            attempt = state.probing.get(key)
            if attempt is not None and attempt.watched and len(draft.tokens) > attempt.best:
                del state.probing[key]
                state.watch = Watch(draft), attempt
                return draft.cut(attempt.best) if attempt.best else NO_DRAFT
        return draft

    # --- learning -----------------------------------------------------------------------------

    def observe(
        self, sequences: ListOf[Sequence], steps: ListOf[Step], draft_us: float, rest_us: float
    ) -> None:
        """Update acceptance and costs."""
        rows = len(steps)
        spent = draft_us + rest_us
        self._time += spent
        self._steps += 1
        if rows == 1 and not steps[0].draft.tokens and not steps[0].draft.barred:
            state = self._state(sequences[0])
            if not state.probing and state.watch is None:
                # where nothing was drafted there is little to learn, and thinking costs time
                state.steps += 1
                state.plain = True
                self._chosen[0] += self._composed
                if self._settling(state, 1):
                    self._costs.passed(1)
                else:
                    self._costs.observe(1, 1, rest_us, "", 0, draft_us)
                return
        drafted, length = steps[0].draft, steps[0].proposed
        for sequence, step in zip(sequences, steps, strict=True):
            k = len(step.draft.tokens)
            rows += k
            state = self._state(sequence)
            if self._composed:
                self._chosen[k] += 1
            if step.proposed:
                self._learn(state, step, spent if len(steps) == 1 else 0.0)
            else:
                # a drafter that was tried and had nothing to propose has failed as well
                for (drafter, _), attempt in state.probing.items():
                    attempt.prober.result(False, draft_us / rest_us)
                    self._wasted[drafter] += draft_us
            if state.watch is not None:
                watch, attempt = state.watch
                if not watch.extra:
                    drafted, length = watch.draft, len(watch.draft.tokens)
                self._follow(state, watch, attempt, step, draft_us if len(steps) == 1 else 0.0)
            state.steps += 1
            state.plain = not k
        name = drafted.source or (self._leaves[0].name if len(self._leaves) == 1 else "")
        cause = (name, drafted.evidence)
        if len(steps) == 1:
            rows = self._costs.padded(rows)
            if self._settling(self._state(sequences[0]), rows):
                self._costs.passed(rows, cause)
                return
        self._costs.observe(len(steps), rows, rest_us, name, length, draft_us, cause)

    @staticmethod
    def _settling(state: _State, rows: int) -> bool:
        """Whether what the last step of a request took says nothing of others."""
        return state.steps <= (_SETTLING if rows == 1 else _SETTLING_BATCHES)

    def _learn(self, state: _State, step: Step, spent: float) -> None:
        """What came of a draft; `spent`: µs of the step, if it was this sequence's alone.

        What a constraint forced is nobody's success, and a draft that it cut off has failed there.
        """
        draft, k = step.draft, step.proposed
        name = draft.source or self._leaves[0].name
        accepted, rejected = outcome(k, step.held, len(step.tokens))
        if not accepted and not rejected:
            return
        if draft.evidence:
            forced = step.accepted - step.held
            self._weigh(state, name, k, max(1, len(step.tokens) - forced))
        for key in self._count(state, name, draft.evidence, accepted, rejected):
            attempt = state.probing.get(key)
            if attempt is not None and k > attempt.best and (accepted > attempt.best or rejected):
                usual = self._cost(name, attempt.best)
                # a drafter that was left alone for long has much to catch up with
                cost = max(self._cost(name, attempt.length), spent / self._costs.pace)
                extra = cost + 2 * self._costs.change - usual
                held = attempt.held(accepted, k)
                attempt.prober.result(held, extra / usual)
                if not held:
                    self._wasted[name] += max(0.0, extra - accepted * usual)

    def _follow(
        self, state: _State, watch: Watch, attempt: _Try, step: Step, draft_us: float
    ) -> None:
        """What a step says of a try that is watched; `draft_us`: of this sequence's alone."""
        draft, best = watch.draft, attempt.best
        name, drafted = draft.source or self._leaves[0].name, len(draft.tokens)
        if not watch.extra:
            more = draft_us / self._costs.pace - self._costs.drafting(name, drafted)
            watch.extra = self._drafting(name, best, drafted) + max(1.0, more)
            # a text that ends before the verdict is no reason to try again for nothing
            self._wasted[name] += watch.extra
        if not watch.see(step.tokens):
            return
        state.watch = None
        held = attempt.held(watch.held, drafted)
        attempt.prober.result(held, watch.extra / self._cost(name, best))
        if held:
            self._wasted[name] -= watch.extra
        if watch.held + watch.missed > best:
            self._count(state, name, draft.evidence, watch.held, watch.missed, best)

    def _count(
        self, state: _State, name: str, evidence: int, accepted: int, rejected: bool, known: int = 0
    ) -> set[Key]:
        """Remember an outcome, of which the first `known` positions were counted before.

        Returns what it was counted for.
        """
        keys = {(name, 0), (name, evidence)}
        tried = accepted + rejected
        if evidence:
            usual = self._usual((name, evidence)).estimate(tried)
            self._lean(state, name).observe(usual, accepted, known)
        for key in keys:
            state.unsettle(key)
            self._dull.pop(key, None)
            here = self._known(state, key)
            # texts in which much is drafted would else speak for those in which nothing is
            news = [0.0] * known + here.news(tried)[known:]
            self._usual(key).observe(accepted, rejected, news)
            shares = [0.0] * known + [1.0] * (tried - known) if known else ()
            here.observe(accepted, rejected, shares)
        return keys

    def _weigh(self, state: _State, name: str, k: int, tokens: int) -> None:
        """Leave a drafter alone whose evidence misleads in this text, however good elsewhere."""
        cost = self._cost(name, k) + 2.0 * self._costs.change * state.plain
        balance = state.balance.get(name, 0.0) + tokens - cost / self._costs.rows(1)
        if balance < -_PATIENCE:
            balance = 0.0
            state.settle((name, _ALL))
        state.balance[name] = min(balance, _TRUST)

    def _state(self, sequence: Sequence) -> _State:
        state = sequence.scratch.get(self.name)
        if state is None:
            now = self._steps
            settled = {key: until - now for key, until in self._dull.items() if until > now}
            state = sequence.scratch[self.name] = _State({}, {}, {}, settled=settled)
        return state

    def _known(self, state: _State, key: Key) -> Acceptance:
        name, grade = key
        lean = self._lean(state, name) if grade else None
        known = state.acceptance.get(key)
        if known is None:
            usual = self._usual(key)
            prior = Leaning(usual, lean) if lean is not None else usual
            known = state.acceptance[key] = Acceptance(prior, **_LOCAL)
        elif idle := state.steps - state.touched[key]:
            known.relax(_RELAX**idle)
        state.touched[key] = state.steps
        return known

    def _lean(self, state: _State, name: str) -> Lean:
        """How a drafter's drafts from evidence do in this text."""
        key = (name, _ALL)
        lean = state.leans.get(name)
        if lean is None:
            lean = state.leans[name] = Lean(**_TEXT)
        elif idle := state.steps - state.touched[key]:
            lean.relax(_RELAX**idle)
        state.touched[key] = state.steps
        return lean

    def _usual(self, key: Key) -> Acceptance:
        """What all requests showed."""
        common = self._common.get(key)
        if common is None:
            prior = self._priors.get(key[0]) or Given(UNKNOWN)
            common = self._common[key] = Acceptance(prior, **_COMMON)
        return common

    def _bound(self, own: int | None) -> int:
        return self._max if own is None else min(self._max, own)
