package registrar_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/registrar"
)

// keyed has two runs of ada with keys that begin with abcd1, and one of bob with abcd2.
func keyed(t *testing.T) *registrar.Registrar {
	t.Helper()
	store := memory.New(memory.Options{})
	row := func(user string) schedule.Schedule {
		return schedule.Schedule{Definition: schedule.Definition{
			ScheduleID: "of-" + user, WorkflowID: "w", Version: 1, UserID: user, Timezone: "UTC", OverlapPolicy: schedule.OverlapAllow, OverlapKey: "of-" + user,
		}, Revision: 1, CreatedAt: noon, RevisedAt: noon, UpdatedAt: noon}
	}
	for user, starts := range map[string][][]byte{"ada": {{0xab, 0xcd, 0x11}, {0xab, 0xcd, 0x12}}, "bob": {{0xab, 0xcd, 0x20}}} {
		s := row(user)
		change := schedule.Change{ScheduleID: s.ScheduleID, Row: &s, NewRevision: true, Now: noon}
		for i, start := range starts {
			run := schedule.Run{
				ScheduleID: s.ScheduleID, Revision: 1, UserID: user, WorkflowID: "w", Version: 1, RunAt: noon.Add(time.Duration(i) * time.Hour), FireAt: noon,
				Status: schedule.StatusPlanned, Trigger: schedule.TriggerManual, OverlapKey: s.QualifiedOverlapKey(), OverlapPolicy: s.OverlapPolicy, Attempt: 1,
			}
			copy(run.Key[:], start)
			change.Runs = append(change.Runs, run)
		}
		err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
			return []schedule.Change{change}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return registrar.New(registrar.Options{Schedules: store, Fleet: store, Runs: store, Now: func() time.Time { return noon }, Logger: quiet})
}

func TestTheFirstDigitsOfAKeyNameOneRunOfTheCaller(t *testing.T) {
	r := keyed(t)
	for _, test := range []struct {
		name, owner, text string
		want              string // first digits of the key; empty: refused
		says              []string
	}{
		{name: "enough digits", owner: "ada", text: "abcd11", want: "abcd11"},
		{name: "an odd number of them, in upper case", text: "ABCD2", want: "abcd2"},
		{name: "too few to tell two apart", owner: "ada", text: "abcd1", says: []string{"2 runs", "abcd1100", "abcd1200", "of-ada", "give more digits"}},
		{name: "another owner's run does not make them ambiguous", owner: "bob", text: "abcd", want: "abcd2"},
		{name: "an operator sees all", text: "abcd", says: []string{"3 runs", "of-bob"}},
		{name: "of another owner", owner: "bob", text: "abcd11", says: []string{"there is no run with a key that begins with abcd11"}},
		{name: "of nobody", owner: "bob", text: "abcd99", says: []string{"there is no run with a key that begins with abcd99"}},
		{name: "fewer than four", text: "abc", says: []string{"has 3 characters", "at least its first 4"}},
		{name: "no digits", text: "wxyz", says: []string{"is not hexadecimal"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			key, err := r.RunKey(as(t, test.owner, auth.User), test.text)
			if test.want != "" && (err != nil || !strings.HasPrefix(key.String(), test.want)) {
				t.Errorf("RunKey(%s) = %s, %v", test.text, key, err)
			}
			for _, words := range test.says {
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Errorf("RunKey(%s) says %v, want %q in it", test.text, err, words)
				}
			}
		})
	}
	if _, err := r.RunKey(as(t, "bob", auth.User), "abcd11"); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("the error is %v, want ErrNotFound", err)
	}
}
