package memory

import (
	"github.com/carillon/carillon/internal/ledger"
)

// slotGroups are the groups that the entries of the claim may join; those that are not there have
// no number yet.
func (c *claiming) slotGroups(entries []ledger.Entry) *ledger.SlotGroups {
	groups := ledger.WantedGroups(entries, c.req.Now)
	for i, wanted := range groups {
		row := *wanted
		if there := c.jobGroups[wanted.GroupID]; there != nil {
			row = *there
		} else {
			c.lastGroupNo++
			row.No = c.lastGroupNo
		}
		groups[i] = &row
	}
	return ledger.NewSlotGroups(groups, c.req.Now)
}

// writeSlotGroups writes the groups that got members.
func (c *claiming) writeSlotGroups(s *ledger.SlotGroups) {
	changed, _ := s.Changed()
	for _, g := range changed {
		c.putGroup(*g)
	}
	for _, e := range s.Events() {
		c.noteQueue(e)
	}
}
