package console

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	mostListed = 2000             // schedules that are looked through for what fires next
	keptFor    = 10 * time.Second // what a list answered
	mostKept   = 16               // lists
	mostRead   = 16               // schedules that are read anew because they have fired
)

// listings keep what long lists of schedules answered, to the one who asked, for
// a moment: pages that follow runs are made anew each few seconds, and what is
// asked there of schedules changes far less often than runs do. An action of
// this console forgets them all.
type listings struct {
	mu   sync.Mutex
	kept map[string]*listing
}

type listing struct {
	schedules []*carillonv1.Schedule // never changed in place
	more      bool
	read      time.Time
}

// listed are the schedules that a filter finds, up to mostListed, as they stood
// no longer than keptFor ago; next_run_at is never one that has passed, but of
// what fires more often than that. The slice is the caller's own, its elements
// are not.
func (c *Console) listed(v *visit, req *carillonv1.ListSchedulesRequest) (all []*carillonv1.Schedule, more bool, err error) {
	req.PageSize, req.PageToken = 200, ""
	key, err := listingKey(v, req)
	if err != nil {
		return nil, false, err
	}
	found := c.listings.get(key, v.now)
	if found == nil {
		if found, err = c.readAll(v, req); err != nil {
			return nil, false, err
		}
		c.listings.put(key, found)
	} else if renewed := c.renew(v, found); renewed != found {
		found = renewed
		c.listings.put(key, found)
	}
	return slices.Clone(found.schedules), found.more, nil
}

// listingKey is one list of one caller: another may see other rows.
func listingKey(v *visit, req *carillonv1.ListSchedulesRequest) (string, error) {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	return fmt.Sprintf("%q %q %q %q %s", v.id.Subject, v.id.Owner, v.id.Via, v.id.Roles, text), err
}

func (c *Console) readAll(v *visit, req *carillonv1.ListSchedulesRequest) (*listing, error) {
	found := &listing{read: v.now}
	for {
		resp, err := c.schedules.ListSchedules(v.Context(), req)
		if err != nil {
			return nil, err
		}
		for _, s := range resp.GetSchedules() {
			s.Input = nil // up to 64 KiB each, and no list shows it
			found.schedules = append(found.schedules, s)
		}
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return found, nil
		}
		if found.more = len(found.schedules) >= mostListed; found.more {
			return found, nil
		}
	}
}

// renew reads those that have fired since: the list says when they were to. Of
// many, those that come first are.
func (c *Console) renew(v *visit, found *listing) (renewed *listing) {
	read := 0
	for i, s := range found.schedules {
		if s.GetNextRunAt() == nil || s.GetNextRunAt().AsTime().After(v.now) {
			continue
		}
		if read++; read > mostRead {
			break
		}
		resp, err := c.schedules.GetSchedule(v.Context(), &carillonv1.GetScheduleRequest{ScheduleId: s.GetScheduleId()})
		if err != nil {
			continue // deleted meanwhile, say: the next list is without it
		}
		fresh := resp.GetSchedule()
		fresh.Input = nil
		if renewed == nil {
			renewed = &listing{slices.Clone(found.schedules), found.more, found.read}
		}
		renewed.schedules[i] = fresh
	}
	if renewed == nil {
		return found
	}
	return renewed
}

func (l *listings) get(key string, now time.Time) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.kept[key]
	if found == nil || now.Sub(found.read).Abs() > keptFor {
		return nil
	}
	return found
}

// put keeps a list beside others that are still good, or in place of the oldest.
func (l *listings) put(key string, found *listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		l.kept = make(map[string]*listing)
	}
	maps.DeleteFunc(l.kept, func(_ string, old *listing) bool { return found.read.Sub(old.read).Abs() > keptFor })
	if len(l.kept) >= mostKept && l.kept[key] == nil {
		oldest := ""
		for other, old := range l.kept {
			if oldest == "" || old.read.Before(l.kept[oldest].read) {
				oldest = other
			}
		}
		delete(l.kept, oldest)
	}
	l.kept[key] = found
}

// forget is for after a change: whoever made it looks for it next.
func (l *listings) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.kept)
}
