package app

import (
	"net/http"
	"strings"

	"github.com/carillon/carillon/internal/console"
)

// addConsole puts the pages on the mux where the services that they ask are
// served. They have their own door: a person signs in on a page.
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
