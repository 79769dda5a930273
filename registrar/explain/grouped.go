package explain

import (
	"cmp"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// grouped says which group the run is of, or why it has not the one that its schedule names.
func (x *runText) grouped() {
	r, d := x.Run, x.Definition
	switch {
	case !r.Queue.In() || r.Queue.State == schedule.QueueChained:
	case r.Queue.GroupNo != 0:
		x.say("It is member %d of group %s", r.Queue.GroupSeq, cmp.Or(r.Queue.GroupID, fmt.Sprint(r.Queue.GroupNo)))
	case d == nil || d.Group == "" || r.IsJob():
	case r.Trigger == schedule.TriggerSchedule:
		x.say("It is not in group %s of its schedule: it entered its queue at %s, after the group was sealed, or the group could not take it. The log of the queue says why",
			schedule.Quote(d.Group), describe.Instant(r.Queue.EnqueuedAt))
	default:
		x.say("It is not in group %s of its schedule: only runs that their schedule starts in time are, not those started by %s", schedule.Quote(d.Group), trigger(r.Trigger))
	}
}
