package app_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func TestTheDoctorNamesFullLimitsAndUsesWithoutARun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	cfg := onDatabase(t, "sqlite:"+path)
	store := emptyStore(t, cfg)
	if got := finding(t, cfg, "limits"); got != "" {
		t.Errorf("without limits: %q", got)
	}
	for id, most := range map[string]uint32{"card": 1, "api": 2} {
		l := schedule.Limit{LimitDefinition: schedule.LimitDefinition{LimitID: id, UserID: "u", MaxInFlight: most}, Revision: 1, CreatedAt: time.Now(), UpdatedAt: time.Now()}
		if _, err := store.ChangeLimit(t.Context(), id, func(schedule.LimitFacts) (schedule.LimitChange, error) { return schedule.LimitChange{After: &l}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := finding(t, cfg, "limits"), "ok 2, none is full"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `INSERT INTO limit_uses (limit_no, limit_key, used_by) SELECT limit_no, '', randomblob(32) FROM limits WHERE limit_id = 'card'`); err != nil {
		t.Fatal(err)
	}
	want := "fail 1 use of limits is of a run that is not in flight, or of a reservation that has ended: its limit has less room than it allows\nok 2, full: card (1 of 1)"
	if got := finding(t, cfg, "limits"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
