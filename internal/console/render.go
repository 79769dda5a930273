package console

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
)

//go:embed templates/*.html
var templates embed.FS

// page is the input of a template.
type page struct {
	name  string // of the template
	title string
	view  any
	code  int // default 200
}

// frame is the layout around every page.
type frame struct {
	Title  string
	Page   string // of the navigation
	Theme  string
	Zone   string
	Now    int64  // Unix milliseconds; clocks of browsers may be wrong
	Caller string // who is signed in; empty: no sign-in needed
	// Environment is prod, staging and the like; empty: none.
	Environment string
	View        any
}

type pages map[string]*template.Template

// loadPages parses each page with the layout and the parts, whose names begin
// with an underscore.
func loadPages(a assets) pages {
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	base := template.New("").Funcs(template.FuncMap{
		"asset": a.address, "reason": reasonWords, "icon": icon, "lower": strings.ToLower, "join": strings.Join, "pair": pair, "list": list,
	})
	base = template.Must(base.ParseFS(templates, "templates/_*.html"))
	all := make(pages)
	for _, name := range names {
		if base := path.Base(name); strings.HasPrefix(base, "_") {
			continue
		}
		one := template.Must(template.Must(base.Clone()).ParseFS(templates, name))
		all[strings.TrimSuffix(path.Base(name), ".html")] = one
	}
	return all
}

// pair hands two values to a part.
func pair(a, b any) []any { return []any{a, b} }

// show renders the page that make returns.
func (c *Console) show(make func(*visit) (page, error)) http.Handler {
	return c.visited(func(w http.ResponseWriter, v *visit) {
		p, err := make(v)
		if status.Code(err) == codes.Unauthenticated { // since it was let in
			c.askToSignIn(w, v.Request)
			return
		}
		if err != nil {
			p = failurePage(err)
		}
		c.render(w, v, p)
	})
}

// visited serves authenticated visitors, with a deadline for their API calls.
func (c *Console) visited(serve func(http.ResponseWriter, *visit)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := c.admit(w, r)
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(v.asking(r.Context()), askTimeout)
		defer cancel()
		v.Request = r.WithContext(ctx)
		serve(w, v)
	})
}

// render writes the page when all of it is known: a template that fails half
// way must not look like a page.
func (c *Console) render(w http.ResponseWriter, v *visit, p page) {
	var out bytes.Buffer
	err := c.pages[p.name].ExecuteTemplate(&out, "layout", frame{
		Title: p.title, Page: p.name, Theme: v.theme, Zone: v.zone.String(), Now: v.now.UnixMilli(),
		Caller: callerName(v.id), Environment: c.o.Environment, View: p.view,
	})
	if err != nil {
		c.log.ErrorContext(v.Context(), "page not rendered", "page", p.name, "err", err)
		http.Error(w, "the page could not be rendered; see the server log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if p.code != 0 {
		w.WriteHeader(p.code)
	}
	_, _ = w.Write(out.Bytes()) // the client is gone; nothing to do
}

func callerName(id auth.Identity) string {
	if id.Via == auth.ViaOpen {
		return ""
	}
	return id.Subject
}

// list makes a list in a template.
func list(words ...string) []string { return words }
