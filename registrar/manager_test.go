package registrar_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func TestUpsertOfAManagedSchedule(t *testing.T) {
	const (
		bySet    = "schedule s is managed by set:prod; the next apply of that set overwrites this change"
		byDeploy = "schedule s is managed by workflow:w; the next deploy of that workflow overwrites this change"
		byOther  = "schedule s is managed by compiler; its next deploy may overwrite this change"
	)
	paused := true
	edited := func(in *registrar.UpsertInput) { in.Definition.Version = 2 }
	for _, tt := range []struct {
		name    string
		manager string
		change  func(*registrar.UpsertInput)
		named   string // managed_by of the second upsert
		adopt   bool
		want    string // managed_by afterwards
		warning string
		refused string
	}{
		{name: "a change of a set's schedule keeps the manager and warns", manager: "set:prod", change: edited, want: "set:prod", warning: bySet},
		{name: "a change of a deployed schedule keeps the manager and warns", manager: "workflow:w", change: edited, want: "workflow:w", warning: byDeploy},
		{name: "a change of a program's schedule keeps the manager and warns", manager: "compiler", change: edited, want: "compiler", warning: byOther},
		{name: "a change that names the same manager warns too", manager: "set:prod", change: edited, named: "set:prod", want: "set:prod", warning: bySet},
		{name: "the same definition again is no change and no warning", manager: "set:prod", want: "set:prod"},
		{name: "a pause survives an apply, so nothing warns", manager: "set:prod", change: func(in *registrar.UpsertInput) { in.Paused = &paused }, want: "set:prod"},
		{name: "a schedule without a manager stays without", change: edited},
		{name: "a schedule without a manager may get one", change: edited, named: "set:prod", want: "set:prod"},
		{
			name: "another manager is refused", manager: "set:prod", change: edited, named: "set:test", want: "set:prod",
			refused: "set:test cannot take over s (managed by set:prod); leave managed_by out to keep the manager, or set adopt (--adopt) to take over",
		},
		{name: "adopt takes over for another manager", manager: "set:prod", change: edited, named: "set:test", adopt: true, want: "set:test"},
		{name: "adopt without a manager frees the schedule", manager: "set:prod", change: edited, adopt: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			r.upsert(hourly(func(in *registrar.UpsertInput) { in.Definition.ManagedBy = tt.manager }))
			in := hourly(func(in *registrar.UpsertInput) { in.Definition.ManagedBy, in.Adopt = tt.named, tt.adopt })
			if tt.change != nil {
				tt.change(&in)
			}
			result, err := r.Upsert(r.Context(), in)
			if tt.refused == "" && err != nil || tt.refused != "" && (!errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), tt.refused)) {
				t.Errorf("answered %v, want %q", err, tt.refused)
			}
			if got := result.Warning; got != tt.warning {
				t.Errorf("warns %q, want %q", got, tt.warning)
			}
			if got := r.stored(); got.ManagedBy != tt.want || tt.refused != "" && got.Revision != 1 {
				t.Errorf("stored: managed_by %q, revision %d, want managed_by %q", got.ManagedBy, got.Revision, tt.want)
			}
		})
	}
}

func TestUpsertOfADeletedScheduleHasNoManager(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.upsert(hourly(func(in *registrar.UpsertInput) { in.Definition.ManagedBy = "set:prod" }))
	if err := r.Delete(r.Context(), "s", "me"); err != nil {
		t.Fatal(err)
	}
	if result := r.upsert(hourly()); r.stored().ManagedBy != "" || result.Warning != "" {
		t.Errorf("a new schedule under an old id: managed_by %q, warning %q", r.stored().ManagedBy, result.Warning)
	}
}

func TestAnotherOwnersManagerIsNotShown(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.upsert(hourly(func(in *registrar.UpsertInput) { in.Definition.ManagedBy = "set:secret" }))
	_, err := r.Upsert(r.Context(), hourly(func(in *registrar.UpsertInput) {
		in.Definition.UserID, in.Definition.ManagedBy = "stranger", "set:mine"
	}))
	if !errors.Is(err, schedule.ErrExists) || strings.Contains(err.Error(), "secret") {
		t.Errorf("answered %v", err)
	}
}

func TestAdoptBelongsToTheWholeApply(t *testing.T) {
	r := newRig(t, registrar.Config{})
	in := set("a", "b")
	in.Schedules[1].Adopt = true
	_, err := r.ApplySchedules(r.Context(), in)
	var invalid *schedule.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Violations) != 1 || invalid.Violations[0].Field != "schedules[1].adopt" {
		t.Errorf("answered %v", err)
	}
}
