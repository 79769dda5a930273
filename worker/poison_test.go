package worker_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// spoil writes into the file behind the store's back.
func (r *rig) spoil(statement string, args ...any) {
	r.Helper()
	db, err := sql.Open("sqlite", r.path)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(r.Context(), statement, args...); err != nil {
		r.Fatal(err)
	}
}

func TestAScheduleThatCannotBePlannedHarmsNoOther(t *testing.T) {
	poisons := map[string]string{
		"zone":     `cron_expr = '* * * * * *', interval_ms = NULL, timezone = 'Mars/Olympus'`,
		"cron":     `cron_expr = 'whenever', interval_ms = NULL`,
		"labels":   `labels = '{'`,
		"interval": `interval_ms = 1500`,
		"negative": `interval_ms = -1000`,
		"overlap":  `overlap_policy = 'whatever'`,
		"catchup":  `catchup_policy = 'whatever', next_run_at = 0`,
		"cursor":   `next_run_at = 9000000000000000000`,
		"past":     `next_run_at = -9000000000000000000`,
		"jitter":   `jitter_ms = -5`,
		"queued":   `max_queued = -1`,
		"backlog":  `backlog_from = 1, backlog_until = 2, backlog_revision = 99`,
		"dst":      `dst = 'perhaps', cron_expr = '* * * * * *', interval_ms = NULL`,
	}
	inBubble(t, func(r *rig) {
		r.every("good", time.Second)
		for name, set := range poisons {
			r.every(name, time.Second)
			r.spoil(`UPDATE schedules SET plan_at = 0, `+set+` WHERE schedule_id = ?`, name)
		}
		r.work(11500 * time.Millisecond)
		r.onceEach("good", time.Second, 11*time.Second)
		for _, call := range r.executor.calls("good") {
			if late := call.at.Sub(call.FireAt); late > 5*time.Millisecond {
				r.Errorf("the good schedule was sent %s late", late)
			}
		}
		for _, name := range []string{"zone", "cron", "labels", "interval"} {
			failed := r.events(name, schedule.EventPlanFailed)
			if len(failed) != 2 {
				r.Errorf("%d events of a failure to plan %s in 11.5 s, want one and another after 10 s", len(failed), name)
			}
			for _, e := range failed {
				if e.Note == "" {
					r.Errorf("an event says nothing of why %s cannot be planned", name)
				}
			}
		}
	})
}

func TestARunWhoseDefinitionIsGarbageFailsAloneAndSaysSo(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("good", time.Second)
		r.every("bad", 2*time.Second)
		stop := r.start()
		r.until(1020 * time.Millisecond) // the slot at +2s is not armed yet
		stop()
		r.spoil(`UPDATE schedule_revisions SET definition = '{' WHERE schedule_id = 'bad'`)
		again := r.open() // as another process would find it: nothing is remembered
		defer r.close(again)
		stop = r.startOn(again)
		time.Sleep(3 * time.Second)
		stop()
		r.onceEach("good", time.Second, 4*time.Second)
		r.is(r.slot("bad", 2*time.Second), schedule.StatusFailed, schedule.ReasonLaunchRefused)
	})
}

func TestAScheduleIsPlannedAgainOnceItsDefinitionIsMended(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.every("s", time.Second)
		r.spoil(`UPDATE schedules SET plan_at = 0, interval_ms = 1500 WHERE schedule_id = 's'`)
		stop := r.start()
		defer stop()
		r.until(1500 * time.Millisecond)
		s.Labels = map[string]string{"mended": "yes"}
		r.upsertAgain(s)
		r.until(4500 * time.Millisecond)
		if n := len(r.executor.calls("s")); n < 3 {
			r.Errorf("%d slots fired after the definition was mended, want those at 2, 3 and 4 s; events: %s", n,
				fmt.Sprint(r.events("s", schedule.EventPlanFailed)))
		}
	})
}
