package main

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/check"
	"github.com/carillon/carillon/internal/test/chaos/record"
)

// result is one line of a file of results: parts of a long dose add up.
type result struct {
	At         time.Time               `json:"at"`
	Dose       string                  `json:"dose"`
	Seed       uint64                  `json:"seed"`
	Store      string                  `json:"store"`
	Lock       string                  `json:"lock"`
	Queue      string                  `json:"queue"`
	Violations int                     `json:"violations"`
	Broken     map[string]int          `json:"broken,omitempty"` // violations by invariant
	Counts     check.Counts            `json:"counts"`
	CutShort   string                  `json:"cut_short,omitempty"` // why it did not come to its end
	Struck     map[string]int          `json:"struck,omitempty"`    // faults by kind
	Figures    map[string][]float64    `json:"figures_ms"`          // each measured time
	Lateness   map[string]distribution `json:"lateness_ms"`
}

// distribution summarizes figures that are too many to keep.
type distribution struct {
	N    int           `json:"n"`
	Text string        `json:"text"`
	MS   map[int64]int `json:"ms,omitempty"` // how many took so long, rounded up to whole milliseconds
}

func distributed(f check.Figure) distribution {
	d := distribution{N: len(f.Values), Text: f.String(), MS: make(map[int64]int)}
	for _, v := range f.Values {
		d.MS[int64((v+time.Millisecond-1)/time.Millisecond)]++
	}
	return d
}

// keep appends the result of a run.
func keep(o Options, d dose, r *check.Report, broken error) error {
	if o.Results == "" {
		return nil
	}
	line := result{
		At: time.Now().UTC(), Dose: d.name, Seed: o.Seed, Store: d.store, Lock: d.lock, Queue: d.queue,
		Violations: len(r.Violations), Broken: r.Broken(), Counts: r.Counts, Struck: r.Struck,
		Figures: make(map[string][]float64), Lateness: make(map[string]distribution),
	}
	if broken != nil {
		line.CutShort = broken.Error()
	}
	for _, f := range r.Figures {
		if strings.HasPrefix(f.Name, "lateness") {
			line.Lateness[f.Name] = distributed(f)
			continue
		}
		for _, v := range f.Values {
			line.Figures[f.Name] = append(line.Figures[f.Name], float64(v.Microseconds())/1000)
		}
	}
	to, err := record.NewWriter(filepath.Dir(o.Results), filepath.Base(o.Results))
	if err != nil {
		return err
	}
	defer to.Close()
	return to.Write(line)
}
