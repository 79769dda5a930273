package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// guard is an invariant, a decision or a constraint of the job scheduler's design.
type guard struct {
	id, rule string
	unit     []string         // tests of the rule alone: folder and function, also of the suite of the stores
	cases    []string         // further tests of this folder
	check    func(*guardSite) // the case: it works, and what violates it is refused
	refusal  refusal          // an answer that check has got
	anchor   string           // where the docs have it, besides docs/queues.md#guarantees
}

// refusal is an answer to what is not allowed: the status of HTTP, or 0 for a command.
type refusal struct {
	status int
	says   string
}

// guards has one entry for each rule. TestTheListOfGuardsIsComplete keeps it so.
var guards = []guard{
	{
		id: "INV-001", rule: "The input of a run does not change after its dispatch.",
		unit:  []string{"registrar.TestAWaitingRunIsChangedUntilItsEnd", "internal/test/storetest.changeAdmitted", "internal/test/storetest.changeBySQL"},
		cases: []string{"TestAWaitingJobIsChangedAndADispatchedOneIsNot"},
		check: guardInput, refusal: refusal{409, "Cannot modify params after dispatch"}, anchor: "queues.md#a-run-in-a-queue",
	},
	{
		id: "INV-002", rule: "A run that has ended does not change.",
		unit:  []string{"internal/ledger.TestASettlementMovesARunForwardOnly", "internal/schedule.TestAStatusOnlyMovesForward", "internal/test/storetest.lifeAnswers", "internal/test/storetest.endedBySQL", "internal/test/storetest.resultFinal"},
		cases: []string{"TestLongResultsSurviveAKill"},
		check: guardEnded, refusal: refusal{400, "status"}, anchor: "semantics.md#runs-that-hang-or-get-lost",
	},
	{
		id: "INV-003", rule: "A worker has one run at a time, unless it asks for more.",
		unit:  []string{"internal/ledger.TestAFetchIsAnsweredFromTheRunsOfItsWorker", "internal/test/storetest.pullRace", "internal/test/storetest.pullTwoQueues", "launcher/dispatch.TestARefusedFetchSaysWhatToDo"},
		cases: []string{"TestLongAWorkerFetchesItsRuns", "TestFetchesAreRefused"},
		check: guardWorker, refusal: refusal{409, "slots"}, anchor: "queues.md#pull-workers",
	},
	{
		id: "INV-004", rule: "Runs start by priority, position and time.",
		unit:  []string{"internal/ledger.TestAdmission", "internal/ledger.TestAdmissionsAreThoseOfOneSortedList", "launcher/dispatch.TestRunsStartInTheOrderOfTheQueueOneAfterTheOther"},
		cases: []string{"TestJobsRunInTheOrderOfTheirQueue"},
		check: guardOrder, refusal: refusal{400, "priority"}, anchor: "queues.md#a-run-in-a-queue",
	},
	{
		id: "INV-005", rule: "What happens to a schedule does not affect its runs in a queue.",
		unit:  []string{"launcher/dispatch.TestTheScheduleOfARunInAQueueNoLongerMatters", "registrar.TestAPauseCountsWhatWaitsInQueuesAndEndsItIfAsked"},
		cases: []string{"TestASlotInAQueueIsIndependentOfItsSchedule"},
		check: guardSchedule, refusal: refusal{400, "queued"}, anchor: "queues.md#schedules-in-queues",
	},
	{
		id: "INV-006", rule: "A group ends with its last member.",
		unit:  []string{"internal/test/storetest.endLast", "internal/test/storetest.endRace", "registrar.TestMembersJoinAGroupUntilItIsSealed"},
		cases: []string{"TestLongTwoLastMembersEndTheirGroupOnce"},
		check: guardGroup, refusal: refusal{409, "cannot add to group"}, anchor: "queues.md#groups",
	},
	{
		id: "DEC-001", rule: "Each attempt is a run of its own.",
		unit:  []string{"internal/ledger.TestARedrivenRunIsANewAttemptOfTheDeadOne", "registrar.TestWhichRunsCanBeRetried"},
		cases: []string{"TestFailedRunsAreRetried"},
		check: guardAttempts, refusal: refusal{409, "cannot retry: the run succeeded"}, anchor: "semantics.md#automatic-retries",
	},
	{
		id: "DEC-002", rule: "SQLite in the binary is the default database.",
		unit:  []string{"internal/store/sqlite.TestStoreKeepsTheContract", "internal/store/sqlite.TestKilledProcessesLoseNothing"},
		cases: []string{"TestLongAKilledProcessLosesAndDoublesNoJob"},
		check: guardDatabase, refusal: refusal{0, "DATABASE_URL: starts with neither postgres:// nor sqlite:"}, anchor: "operations.md#backup-and-restore",
	},
	{
		id: "DEC-003", rule: "A schedule only triggers: its runs are runs like any other.",
		unit:  []string{"internal/schedule/cronexpr.TestGrammarVectors", "internal/schedule/cronexpr.TestSlotsAgreeWithBruteForceAroundEveryChange"},
		cases: []string{"TestASlotFiresTheWebhookOfTheSimplestExecutor"},
		check: guardTrigger, refusal: refusal{400, "cron_expr"}, anchor: "semantics.md#spec",
	},
	{
		id: "DEC-004", rule: "A reservation takes the next slot and stops nothing.",
		unit:  []string{"internal/ledger.TestReservationsAreGrantedInOrderWhileThereIsRoom", "registrar.TestAReservationGoesBeforeTheRunsOfItsQueue"},
		cases: []string{"TestAReservationGoesBeforeTheQueueAndEndsWithItsClient"},
		check: guardReservation, refusal: refusal{409, "it takes no reservations until it is opened"}, anchor: "queues.md#reservations",
	},
	{
		id: "DEC-005", rule: "Runs of one priority are ordered by position.",
		unit:  []string{"internal/ledger.TestPositionsLieBetweenTheirNeighbours", "registrar.TestWaitingRunsMove"},
		cases: []string{"TestJobsRunInTheOrderOfTheirQueue"},
		check: guardPosition, refusal: refusal{400, "position"}, anchor: "queues.md#a-run-in-a-queue",
	},
	{
		id: "DEC-006", rule: "All surfaces have the same statuses.",
		unit:  []string{"internal/ledger.TestTheRunOfAMessageIsAsItWasAtItsEnd", "internal/schedule.TestEveryReasonHasTheEndItIsGivenFor"},
		check: guardStatuses, refusal: refusal{400, "status"}, anchor: "queues.md#a-run-in-a-queue",
	},
	{
		id: "DEC-007", rule: "A failed run has three attempts, and then retries by hand.",
		unit:  []string{"internal/ledger.TestWhichFailedRunsHaveANextAttempt", "internal/schedule.TestTheWaitOfARetryGrowsAndStaysWithinTenPercent", "launcher/dispatch.TestAJobFailsThreeTimesAndIsDead"},
		cases: []string{"TestTheDeadRunsOfAQueueAreRedriven"},
		check: guardRetries, refusal: refusal{400, "max_attempts"}, anchor: "semantics.md#automatic-retries",
	},
	{
		id: "DEC-008", rule: "A queue and its order survive a restart.",
		unit:  []string{"launcher/dispatch.TestWhatADeadProcessHasAdmittedIsSentByAnother", "launcher/executor/local.TestAKillLosesNoKeyAndRunsNoneTwice"},
		cases: []string{"TestLongAKilledLocalExecutorFailsItsRunAndKeepsTheQueue", "TestLongAKilledProcessLosesAndDoublesNoJob", "TestAPausedQueueStartsNothingAndSurvivesARestart"},
		check: guardRequests, refusal: refusal{422, "request_id"}, anchor: "queues.md#when-something-fails",
	},
	{
		id: "DEC-009", rule: "A message is sent at least once, with three retries.",
		unit:  []string{"registrar/alert.TestAMessageAboutARunIsSentUntilItsRetriesAreUsedUp", "internal/ledger.TestEachEndHasTheMessageOfItsType"},
		cases: []string{"TestTheEndOfARunIsToldAtLeastOnce"},
		check: guardWebhook, refusal: refusal{400, "is not a target"}, anchor: "queues.md#messages",
	},
	{
		id: "DEC-010", rule: "Each schedule has a time zone, UTC by default.",
		unit:  []string{"internal/schedule/cronexpr.TestOnlyExactZoneNamesAreAccepted", "internal/schedule/cronexpr.TestClockChangeVectors", "registrar.TestCreateResolvesTheDefaultsAndStartsAfterNow"},
		check: guardTimezone, refusal: refusal{400, "Mars/Base"}, anchor: "semantics.md#daylight-saving",
	},
	{
		id: "DEC-011", rule: "The queue default has one run in flight.",
		unit:  []string{"registrar.TestTheQueueDefaultIsMadeAtItsFirstUse", "registrar.TestOneBoundOverAllQueues"},
		check: guardDefaultQueue, refusal: refusal{400, "max_in_flight"}, anchor: "queues.md#the-queue",
	},
	{
		id: "DEC-012", rule: "A sequential group stops at a failure.",
		unit:  []string{"internal/test/storetest.endStops", "internal/test/storetest.endContinues", "registrar.TestBadGroupsAreRefused"},
		cases: []string{"TestLongASequentialGroupStopsOnceItsMemberHasFailedForGood"},
		check: guardSequence, refusal: refusal{400, "must be in list [stop, continue]"}, anchor: "queues.md#groups",
	},
	{
		id: "CON-001", rule: "One process on one machine is enough.",
		unit:  []string{"internal/store/sqlite.TestStoreKeepsTheContract"},
		cases: []string{"TestDevRunsTheExamplesWithinAMinute"},
		check: guardOneMachine, refusal: refusal{0, "LEADER_LOCK"}, anchor: "operations.md#what-to-run-where",
	},
	{
		id: "CON-002", rule: "A limit bounds the runs that use one resource.",
		unit:  []string{"internal/ledger.TestAdmission", "registrar.TestARunUsesTheLimitsOfItsQueueAndItsOwn"},
		cases: []string{"TestLongALimitHoldsOverTwoQueuesAndKills"},
		check: guardLimit, refusal: refusal{400, "limits"}, anchor: "queues.md#limits-and-rates",
	},
	{
		id: "CON-003", rule: "After SIGTERM running jobs complete and none starts.",
		unit:  []string{"launcher/dispatch.TestAStopPutsBackWhatWasNotCalledAndAwaitsWhatWas", "launcher/executor/local.TestAStopLetsACommandEndWithinTheShutdownGrace"},
		cases: []string{"TestOnSigtermRunningJobsComplete", "TestSigtermDrains"},
		check: guardGrace, refusal: refusal{0, "SHUTDOWN_GRACE_MS: -1 is not within 0 to 3600000"}, anchor: "operations.md#starting-stopping-upgrading",
	},
	{
		id: "CON-004", rule: "The paths of older clients work.",
		unit:  []string{"registrar/api.TestThePathsOfOlderClientsWorkForJobsAndNameTheirSuccessor"},
		check: guardOldPaths, refusal: refusal{400, "idempotency_key"}, anchor: "queues.md#calls",
	},
}

// guardSite is a process for one case after the other, with what it has refused.
type guardSite struct {
	*jobSite
	hooks    *sink
	database string
	refused  []refusal
}

// TestGuards runs the case of each guard, and fails unless it has brought about the refusal of the list.
func TestGuards(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		hooks := newSink(t)
		site := newJobSite(t, database, "ALLOW_EGRESS=loopback", hooks.targets())
		for _, g := range guards {
			t.Run(g.id, func(t *testing.T) {
				s := &guardSite{jobSite: &jobSite{T: t, rest: newREST(t, site.process), process: site.process, executor: site.executor}, hooks: hooks, database: database}
				g.check(s)
				if !slices.ContainsFunc(s.refused, func(r refusal) bool { return r.status == g.refusal.status && strings.Contains(r.says, g.refusal.says) }) {
					t.Errorf("%s %s\nnothing was refused with %d %q, only %+v", g.id, g.rule, g.refusal.status, g.refusal.says, s.refused)
				}
			})
		}
	})
}

// refuses fails unless a request is refused, and notes the answer.
func (s *guardSite) refuses(method, path, body string) string {
	s.Helper()
	status, answer, err := s.call(method, path, body)
	if err != nil || status < 400 || status >= 500 {
		s.Errorf("%s %s %s is answered with %d %s %v, want a refusal", method, path, body, status, answer, err)
	}
	s.refused = append(s.refused, refusal{status, string(answer)})
	return string(answer)
}

// refusesStart fails unless a process with this setting ends at once, and notes what it says.
func (s *guardSite) refusesStart(env ...string) {
	s.Helper()
	p := newProcess(s.T, "carillon", nil, append([]string{"EXECUTOR_URL=http://127.0.0.1:1/"}, env...))
	_, errs, code := p.command("", "serve")
	if code == 0 {
		s.Errorf("with %s it starts", env)
	}
	s.refused = append(s.refused, refusal{0, errs})
}

// queue registers a queue of ada.
func (s *guardSite) queue(id, members string) {
	s.Helper()
	s.do("PUT", "/v1/queues/"+id, `{"user_id":"ada"`+members+`}`, nil)
}

// put puts a run into a queue.
func (s *guardSite) put(queue, name, more string) (key string) {
	s.Helper()
	var answer struct {
		Run job `json:"run"`
	}
	s.do("POST", "/v1/queues/"+queue+"/runs", fmt.Sprintf(`{"workflow_id":"w","version":1,"user_id":"ada","input":{"name":%q}%s}`, name, more), &answer)
	return answer.Run.Key
}

// shown is a run, or what else is at a path, as GET shows it.
func (s *guardSite) shown(path, member string) map[string]any {
	s.Helper()
	var answer map[string]any
	s.do(http.MethodGet, path, nil, &answer)
	found, _ := answer[member].(map[string]any)
	return found
}

// becomes waits until a run has a status, and returns it.
func (s *guardSite) becomes(key, status string) (run map[string]any) {
	s.Helper()
	eventually(s.T, startBound, "run "+key+" is "+status, func() error {
		if run = s.shown("/v1/runs/"+key, "run"); run["status"] != status {
			return fmt.Errorf("it is %v (%v)", run["status"], run["reason"])
		}
		return nil
	})
	return run
}

// hasEntered waits until a run waits in its queue, and returns it. The run of a schedule is planned
// until the leader has claimed it.
func (s *guardSite) hasEntered(key string) (run map[string]any) {
	s.Helper()
	eventually(s.T, startBound, "run "+key+" waits in its queue", func() error {
		if run = s.shown("/v1/runs/"+key, "run"); run["queue_state"] != "waiting" {
			return fmt.Errorf("it is %v, its queue state %v", run["status"], run["queue_state"])
		}
		return nil
	})
	return run
}

// has fails unless an object has these members.
func (s *guardSite) has(found map[string]any, want map[string]any) {
	s.Helper()
	for name, value := range want {
		if fmt.Sprint(found[name]) != fmt.Sprint(value) {
			s.Errorf("%s is %v, want %v", name, found[name], value)
		}
	}
}

// called waits until the executor has got a job.
func (s *guardSite) called(name string) {
	s.Helper()
	eventually(s.T, startBound, "the executor gets "+name, func() error {
		if got := s.executor.got(); !slices.Contains(got, name) {
			return fmt.Errorf("it got %v", got)
		}
		return nil
	})
}

// rfc is a time as requests have it.
func rfc(at time.Time) string { return at.UTC().Format(time.RFC3339) }
