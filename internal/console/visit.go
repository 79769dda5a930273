package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// visit is one request of an authenticated visitor.
type visit struct {
	*http.Request
	id    auth.Identity
	zone  *time.Location // the viewer's
	theme string         // dark, light, or empty: as the machine has it
	now   time.Time      // the one now of a page
}

// The cookies that console.js writes; both are looked at and nothing else.
const (
	zoneCookie  = "carillon_zone"
	themeCookie = "carillon_theme"
)

func (c *Console) newVisit(r *http.Request, id auth.Identity) *visit {
	v := &visit{Request: r, id: id, zone: time.UTC, now: c.o.Now()}
	if cookie, err := r.Cookie(zoneCookie); err == nil {
		name, _ := url.QueryUnescape(cookie.Value)
		if zone, err := cronexpr.LoadLocation(name); err == nil {
			v.zone = zone
		}
	}
	if cookie, err := r.Cookie(themeCookie); err == nil && (cookie.Value == "dark" || cookie.Value == "light") {
		v.theme = cookie.Value
	}
	return v
}

// asking is the context of calls on the visitor's behalf: with its identity,
// and marked as a call that came by HTTP, for the access log.
func (v *visit) asking(ctx context.Context) context.Context {
	host, _, _ := strings.Cut(v.RemoteAddr, "]")
	if i := strings.LastIndexByte(host, ':'); i > 0 {
		host = host[:i]
	}
	return metadata.NewOutgoingContext(auth.NewContext(ctx, v.id),
		metadata.Pairs("x-forwarded-host", v.Host, "x-forwarded-for", strings.Trim(host, "[]")))
}

// fragment reports whether htmx requests a part of the page.
func (v *visit) fragment() bool { return v.Header.Get("HX-Request") == "true" }

// param is a query parameter without the spaces that people paste.
func (v *visit) param(name string) string { return strings.TrimSpace(v.URL.Query().Get(name)) }

// with is the address of this page with other parameters; an empty value takes
// one away.
func (v *visit) with(pairs ...string) string {
	q := v.URL.Query()
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
		if pairs[i+1] == "" {
			q.Del(pairs[i])
		}
	}
	if len(q) == 0 {
		return v.URL.Path
	}
	return v.URL.Path + "?" + q.Encode()
}

// at is an instant as the viewer reads it.
func (v *visit) at(t *timestamppb.Timestamp) moment {
	if t == nil {
		return moment{}
	}
	return v.when(t.AsTime())
}

func (v *visit) when(t time.Time) moment { return moment{Instant: t, now: v.now, zone: v.zone} }

// in is an instant in a schedule's zone, or in the viewer's if the name is invalid.
func (v *visit) in(t *timestamppb.Timestamp, zone string) moment {
	m := v.at(t)
	if loc, err := cronexpr.LoadLocation(zone); err == nil {
		m.zone = loc
	}
	return m
}
