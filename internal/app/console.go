package app

import (
	"net/http"
	"strings"

	"github.com/carillon/carillon/internal/console"
)

// addConsole adds the pages if this process serves the API. The console authenticates by its sign-in
// page.
func (a *App) addConsole(mux *http.ServeMux) {
	if !a.cfg.Has("registrar") {
		return
	}
	pages := console.New(console.Options{
		Conn: a.gate.Forward(a.conn), Identifier: a.gate, Now: a.store.Now, Logger: a.log,
		Environment: a.cfg.Environment,
		Secure:      strings.HasPrefix(a.cfg.PublicURL, "https://"),
	})
	mux.Handle("/{$}", pages)
	mux.Handle(console.Prefix, pages)
}
