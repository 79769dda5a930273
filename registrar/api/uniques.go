package api

import (
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func uniqueIn(u *carillonv1.UniqueKey) *schedule.Unique {
	if u == nil {
		return nil
	}
	in := &schedule.Unique{
		Key: u.GetKey(), Scope: schedule.UniqueScope(u.GetScope()), PeriodMS: u.GetPeriodMs(), OnDuplicate: schedule.OnDuplicate(u.GetOnDuplicate()),
	}
	if d := u.GetDebounce(); d != nil {
		in.Debounce = &schedule.Debounce{QuietMS: d.GetQuietMs(), MaxMS: d.GetMaxMs()}
	}
	return in
}

func uniqueOf(h *schedule.UniqueHold) *carillonv1.HeldUniqueKey {
	if h == nil {
		return nil
	}
	return &carillonv1.HeldUniqueKey{
		Key: h.Key, Scope: string(h.Scope), FirstAt: timestamp(h.FirstAt), Until: timestamp(h.Until), Replaced: uint32(h.Replaced), FireBy: timestamp(h.FireBy),
	}
}
