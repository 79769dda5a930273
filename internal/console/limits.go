package console

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	limitsShown    = 100
	limitKeysShown = 100
)

// limitsView is the page of limits.
type limitsView struct {
	Limits []limitRow
	More   bool
}

// limitView is the page of one limit.
type limitView struct {
	limitRow
	Keys     []limitKeyRow
	Next     string // address of the next page of Keys
	First    string // address of the first one
	Uses     []*carillonv1.LimitUse
	Users    []limitUserRow
	MoreUser uint32
}

// limitRow is one limit.
type limitRow struct {
	*carillonv1.Limit
	Created, Updated moment
}

type limitKeyRow struct {
	*carillonv1.LimitKey
	Until moment
}

type limitUserRow struct {
	*carillonv1.LimitUser
	Dispatched moment
}

func (u limitUserRow) Path() string { return runPath(u.GetIdempotencyKey()) }

// Waits is whether the run is a retry that keeps the limit and has not started.
func (u limitUserRow) Waits() bool   { return u.GetKept() && u.GetDispatchedAt() == nil }
func (u limitUserRow) Queue() string { return queuePath(u.GetQueueId()) }

func limitPath(id string) string { return Prefix + "limits/" + url.PathEscape(id) }

func (l limitRow) Path() string { return limitPath(l.GetLimitId()) }

// limitLink is a limit that a queue or a run names, with its page.
type limitLink struct{ Text, Path string }

func limitLinks(texts []string) (links []limitLink) {
	for _, text := range texts {
		id, _, _ := strings.Cut(text, "=")
		links = append(links, limitLink{text, limitPath(id)})
	}
	return links
}

// Usage is how many runs in flight use it, of how many if there is one maximum.
func (l limitRow) Usage() string {
	if l.Limit.MaxInFlight == nil || l.GetKeyed() {
		return fmt.Sprint(l.GetUsed())
	}
	return fmt.Sprintf("%d of %d", l.GetUsed(), l.GetMaxInFlight())
}

// Max is "" for any number.
func (l limitRow) Max() string { return maxText(l.Limit.MaxInFlight) }

// Max is "" if the key has that of the limit.
func (k limitKeyRow) Max() string { return maxText(k.LimitKey.MaxInFlight) }

func maxText(n *uint32) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// Starts is the rate in words; "" without one.
func (l limitRow) Starts() string    { return rateText(l.GetRate()) }
func (k limitKeyRow) Starts() string { return rateText(k.GetRate()) }

func rateText(r *carillonv1.Rate) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("%d in %s", r.GetStarts(), perText(r))
	if r.GetBurst() > 1 {
		text += fmt.Sprintf(", %d at once", r.GetBurst())
	}
	return text
}

// StartsField, Per and BurstField are the rate as the form takes it; "" without one.
func (l limitRow) StartsField() string { return field(l.GetRate().GetStarts()) }
func (l limitRow) Per() string         { return perText(l.GetRate()) }
func (l limitRow) BurstField() string  { return field(l.GetRate().GetBurst()) }

func field(n uint32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func perText(r *carillonv1.Rate) string {
	if r == nil {
		return ""
	}
	return schedule.ShortDuration(time.Duration(r.GetPerMs()) * time.Millisecond)
}

func (v *visit) limit(l *carillonv1.Limit) limitRow {
	return limitRow{Limit: l, Created: v.at(l.GetCreatedAt()), Updated: v.at(l.GetUpdatedAt())}
}

func (c *Console) showLimits(v *visit) (page, error) {
	resp, err := c.limits.ListLimits(v.Context(), &carillonv1.ListLimitsRequest{PageSize: limitsShown})
	if err != nil {
		return page{}, err
	}
	view := limitsView{More: resp.GetNextPageToken() != ""}
	for _, l := range resp.GetLimits() {
		view.Limits = append(view.Limits, v.limit(l))
	}
	return page{name: "limits", title: "Limits", view: view}, nil
}

func (c *Console) showLimit(v *visit) (page, error) {
	id := v.PathValue("id")
	got, err := c.limits.GetLimit(v.Context(), &carillonv1.GetLimitRequest{LimitId: id, PageSize: limitKeysShown, PageToken: v.param("page_token")})
	if err != nil {
		return page{}, err
	}
	view := limitView{limitRow: v.limit(got.GetLimit()), Uses: got.GetUses(), MoreUser: got.GetMoreUsers()}
	for _, k := range got.GetKeys() {
		view.Keys = append(view.Keys, limitKeyRow{k, v.at(k.GetUntil())})
	}
	for _, u := range got.GetUsers() {
		view.Users = append(view.Users, limitUserRow{u, v.at(u.GetDispatchedAt())})
	}
	if token := got.GetNextPageToken(); token != "" {
		view.Next = v.with("page_token", token)
	}
	if v.param("page_token") != "" {
		view.First = limitPath(id)
	}
	return page{name: "limit", title: id, view: view}, nil
}

// changeLimit changes the numbers and the note of a limit, and keeps the rest of its definition.
func (c *Console) changeLimit(v *visit) (toast, error) {
	id := v.PathValue("id")
	most, rate, err := v.numbers()
	if err != nil {
		return toast{}, err
	}
	got, err := c.limits.GetLimit(v.Context(), &carillonv1.GetLimitRequest{LimitId: id, PageSize: 1})
	if err != nil {
		return toast{}, err
	}
	l := got.GetLimit()
	done, err := c.limits.UpsertLimit(v.Context(), &carillonv1.UpsertLimitRequest{
		LimitId: id, UserId: l.GetUserId(), Shared: l.GetShared(), Keyed: l.GetKeyed(), Ordered: l.GetOrdered(), MaxInFlight: most, Rate: rate, Note: v.field("note"),
	})
	return changedToast(id, done.GetWarning()), err
}

func (c *Console) setLimitKey(v *visit) (toast, error) {
	id, key := v.PathValue("id"), v.field("key")
	most, rate, err := v.numbers()
	if err != nil {
		return toast{}, err
	}
	until, err := v.until()
	if err != nil {
		return toast{}, err
	}
	done, err := c.limits.SetLimitKey(v.Context(), &carillonv1.SetLimitKeyRequest{LimitId: id, Key: key, MaxInFlight: most, Rate: rate, Note: v.field("note"), Until: until})
	return changedToast(id+"="+key, done.GetWarning()), err
}

func changedToast(what, warning string) toast {
	t := toast{Title: "Changed " + what}
	if warning != "" {
		t.Lines = []string{warning}
	}
	return t
}

// numbers are max_in_flight and the rate of a form; empty fields leave them out.
func (v *visit) numbers() (most *uint32, rate *carillonv1.Rate, err error) {
	number := func(name string) *uint32 {
		text := v.field(name)
		n, bad := strconv.ParseUint(text, 10, 32)
		if text == "" {
			return nil
		}
		if bad != nil && err == nil {
			err = status.Errorf(codes.InvalidArgument, "%s: %.40q is not a number", strings.ReplaceAll(name, "_", " "), text)
		}
		found := uint32(n)
		return &found
	}
	most = number("max_in_flight")
	starts, burst, per := number("starts"), number("burst"), v.field("per")
	if starts == nil && burst == nil && per == "" || err != nil {
		return most, nil, err
	}
	d, bad := time.ParseDuration(per)
	if bad != nil || d < time.Millisecond || d > schedule.MaxRatePeriod {
		return nil, nil, status.Errorf(codes.InvalidArgument, "per: %.40q is not a duration from 1ms to 24h, such as 1s", per)
	}
	rate = &carillonv1.Rate{PerMs: uint32(d.Milliseconds())}
	if starts != nil {
		rate.Starts = *starts
	}
	if burst != nil {
		rate.Burst = *burst
	}
	return most, rate, nil
}
