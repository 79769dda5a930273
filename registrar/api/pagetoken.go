package api

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// A page token is the start of the next page: the sort key of the last row of the previous page,
// after a letter for its list. It grants no access, because every page is requested with its
// filter, so it needs no signature. Tokens that do not parse completely are refused.

// kind is the list that a token belongs to.
type kind string

const (
	schedulesPage kind = "s"
	upcomingPage  kind = "n"
	runsPage      kind = "r"
	eventsPage    kind = "e"
	revisionsPage kind = "v"
	workflowsPage kind = "w"
	sharesPage    kind = "h"
	grantsPage    kind = "g"
	previewPage   kind = "p"
	redrivePage   kind = "x"
	cancelPage    kind = "c"
	auditPage     kind = "a"
	queuesPage    kind = "q"
	queueLogPage  kind = "t"
	waitingPage   kind = "u"
	limitsPage    kind = "i"
	limitKeysPage kind = "k"
	groupsPage    kind = "o"
	overlapsPage  kind = "b"
	topicPage     kind = "y"
	inboxPage     kind = "f"
	topicsPage    kind = "j"

	alertsPage     kind = "l"
	deliveriesPage kind = "d"
)

func (k kind) token(key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(string(k) + key))
}

func (k kind) number(n int64) string { return k.token(strconv.FormatInt(n, 10)) }

// key is the sort key in a token; "" without a token.
func (k kind) key(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	key, ours := strings.CutPrefix(string(raw), string(k))
	if err != nil || !ours || key == "" {
		return "", forged(token)
	}
	return key, nil
}

// id is the id that token was made of; "" without a token.
func (k kind) id(token string) (string, error) {
	key, err := k.key(token)
	if err == nil && key != "" && !schedule.ValidID(key) {
		return "", forged(token)
	}
	return key, err
}

// positive is the number that token was made of; 0 without a token.
func (k kind) positive(token string, most int64) (int64, error) {
	key, err := k.key(token)
	if err != nil || key == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(key, 10, 64)
	if err != nil || n < 1 || n > most || k.number(n) != token {
		return 0, forged(token)
	}
	return n, nil
}

func forged(token string) error {
	return schedule.Invalid("page_token", token, "is not a page token of this list", "use next_page_token of the previous page unchanged")
}

// A place in the list of grants is grant_id/user_id: a grant_id has no slash.
func grantToken(ref schedule.GrantRef) string {
	return grantsPage.token(ref.GrantID + "/" + ref.UserID)
}

func grantPlace(token string) (schedule.GrantRef, error) {
	key, err := grantsPage.key(token)
	if err != nil || key == "" {
		return schedule.GrantRef{}, err
	}
	grantID, userID, _ := strings.Cut(key, "/")
	if !schedule.ValidID(grantID) || !schedule.ValidOwner(userID) {
		return schedule.GrantRef{}, forged(token)
	}
	return schedule.GrantRef{UserID: userID, GrantID: grantID}, nil
}

func runPlace(at time.Time, key schedule.Key) string { return runsPage.runPlace(at, key) }

func runAfter(token string) (at time.Time, key schedule.Key, err error) {
	return runsPage.runAfter(token)
}

// runPlace is the place of a run in a list by run_at.
func (k kind) runPlace(at time.Time, key schedule.Key) string {
	return k.token(strconv.FormatInt(at.UnixMicro(), 10) + "." + key.String())
}

func (k kind) runAfter(token string) (at time.Time, key schedule.Key, err error) {
	place, err := k.key(token)
	if err != nil || place == "" {
		return at, key, err
	}
	micros, hex, _ := strings.Cut(place, ".")
	unix, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || unix < 0 || unix >= schedule.MaxTime.UnixMicro() {
		return at, key, forged(token)
	}
	at = time.UnixMicro(unix).UTC()
	if key, err = schedule.ParseKey(hex); err != nil || k.runPlace(at, key) != token {
		return at, key, forged(token)
	}
	return at, key, nil
}

// The place of a redrive is where the next page of dead runs begins, with what its other pages
// must know.
func redriveToken(p *registrar.RedrivePlace) string {
	return redrivePage.token(fmt.Sprintf("%d/%d/%d/%s/%s", p.Began.UnixMicro(), p.Before, p.RunAt.UnixMicro(), p.Key, p.RequestID))
}

func redrivePlace(token string) (p registrar.RedrivePlace, err error) {
	place, err := redrivePage.key(token)
	if err != nil || place == "" {
		return p, err
	}
	parts := strings.Split(place, "/") // no request id has a slash
	if len(parts) != 5 || !schedule.ValidID(parts[4]) {
		return p, forged(token)
	}
	var numbers [3]int64
	for i := range numbers {
		if numbers[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil || numbers[i] < 0 || numbers[i] >= schedule.MaxTime.UnixMicro() {
			return p, forged(token)
		}
	}
	p = registrar.RedrivePlace{Began: time.UnixMicro(numbers[0]).UTC(), Before: int(numbers[1]), RunAt: time.UnixMicro(numbers[2]).UTC(), RequestID: parts[4]}
	if p.Key, err = schedule.ParseKey(parts[3]); err != nil || redriveToken(&p) != token {
		return registrar.RedrivePlace{}, forged(token)
	}
	return p, nil
}

func upcomingPlace(at time.Time, scheduleID string) string {
	return upcomingPage.token(strconv.FormatInt(at.UnixMicro(), 10) + "." + scheduleID)
}

func upcomingAfter(token string) (at time.Time, scheduleID string, err error) {
	place, err := upcomingPage.key(token)
	if err != nil || place == "" {
		return at, "", err
	}
	micros, scheduleID, _ := strings.Cut(place, ".")
	unix, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || unix < 0 || unix >= schedule.MaxTime.UnixMicro() || !schedule.ValidID(scheduleID) {
		return at, "", forged(token)
	}
	if at = time.UnixMicro(unix).UTC(); upcomingPlace(at, scheduleID) != token {
		return at, "", forged(token)
	}
	return at, scheduleID, nil
}

func versionPlace(version int32, userID string) string {
	return workflowsPage.token(strconv.FormatInt(int64(version), 10) + "." + userID)
}

func versionAfter(token string) (version int32, userID string, err error) {
	place, err := workflowsPage.key(token)
	if err != nil || place == "" {
		return 0, "", err
	}
	number, userID, _ := strings.Cut(place, ".")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 1 || userID != "" && !schedule.ValidOwner(userID) || versionPlace(int32(n), userID) != token {
		return 0, "", forged(token)
	}
	return int32(n), userID, nil
}

// pageSize is the number of rows of a page.
func pageSize(asked uint32) int { return schedule.PageSize(int(asked)) }

// maxPageBytes cuts pages of large rows short: clients of gRPC take 4 MiB by
// default.
const maxPageBytes = 2 << 20

// page is the part of rows for one answer, and whether more rows follow. rows has one more than
// size.
func page[T any](rows []T, size int, bytes func(*T) int) (shown []T, more bool) {
	total := 0
	for i := range rows {
		if total += bytes(&rows[i]); i == size || i > 0 && total > maxPageBytes {
			return rows[:i], true
		}
	}
	return rows, false
}

// small rows never fill a page by their bytes.
func small[T any](*T) int { return 0 }
