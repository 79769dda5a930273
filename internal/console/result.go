package console

import (
	"fmt"
	"strings"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// artifactRow is something that a run has stored elsewhere.
type artifactRow struct{ *carillonv1.RunArtifact }

func artifactsOf(r *carillonv1.Run) []artifactRow {
	rows := make([]artifactRow, len(r.GetArtifacts()))
	for i, a := range r.GetArtifacts() {
		rows[i] = artifactRow{a}
	}
	return rows
}

// Link is the address of an artifact that a browser may open; "": it may not.
func (a artifactRow) Link() string {
	if url := a.GetUrl(); strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
		return url
	}
	return ""
}

// Size is the number of bytes as a text; "": it is not known.
func (a artifactRow) Size() string {
	if a.GetBytes() == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", a.GetBytes())
}
