package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
)

//go:embed static/*.js static/*.css static/*.svg
var static embed.FS

// assets are the static files of the pages. Each address contains the hash of the
// file, so that browsers can cache it without a limit.
type assets map[string]asset

type asset struct {
	content []byte
	kind    string
	hash    string
}

var assetKinds = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

func loadAssets() assets {
	names, err := fs.Glob(static, "static/*")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	all := make(assets, len(names))
	for _, name := range names {
		content, err := static.ReadFile(name)
		if err != nil {
			panic(err) // embedded
		}
		sum := sha256.Sum256(content)
		all[path.Base(name)] = asset{content, assetKinds[path.Ext(name)], hex.EncodeToString(sum[:6])}
	}
	return all
}

// address is the URL of a file.
func (a assets) address(name string) string {
	return Prefix + "static/" + name + "?v=" + a[name].hash
}

// ServeHTTP serves a file without authentication: none holds information about this server.
func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", file.kind)
	if r.URL.Query().Get("v") == file.hash {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(file.content) // the client is gone; nothing to do
}
