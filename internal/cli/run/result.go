package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// writeResult writes what the executor returned with the end of a run.
func writeResult(p *render.Page, r *carillonv1.Run) {
	writeProblem(p, r.GetResultProblem())
	if len(r.GetResult()) > 0 {
		p.Line("")
		p.Line("result: %s", strings.TrimSpace(string(r.GetResult())))
	}
	if len(r.GetArtifacts()) == 0 {
		return
	}
	rows := make([][]string, len(r.GetArtifacts()))
	for i, a := range r.GetArtifacts() {
		size := ""
		if a.GetBytes() > 0 {
			size = fmt.Sprintf("%.0f", a.GetBytes())
		}
		rows[i] = []string{a.GetName(), size, a.GetUrl(), a.GetSha256()}
	}
	p.Line("")
	p.Table([]string{"artifact", "bytes", "url", "sha256"}, rows)
}

// progress is how far a run is, in words.
func progress(r *carillonv1.Run) string {
	p := r.GetProgress()
	if p == nil {
		return ""
	}
	return schedule.ProgressOf(schedule.ProgressValues{Done: p.GetDone(), Total: p.GetTotal(), Note: p.GetNote()}).String()
}

// resultFlags are what a report returns with the end of its run.
type resultFlags struct {
	file      string
	artifacts []string
}

func (f *resultFlags) register(flags *pflag.FlagSet, req *carillonv1.ReportRunRequest) {
	progressFlag{req}.register(flags)
	flags.StringVar(&f.file, "result-file", "", "`FILE` with the JSON that the run returns with its end, at most 64 KiB (- reads it from stdin)")
	flags.StringArrayVar(&f.artifacts, "artifact", nil, "`NAME=URL` of something that the run has stored elsewhere, or its JSON {name, url, bytes, sha256} (repeatable, at most 20)")
}

// progressFlag is --progress: DONE or DONE/TOTAL.
type progressFlag struct{ req *carillonv1.ReportRunRequest }

func (f progressFlag) set(text string) error {
	p := f.of()
	done, total, both := strings.Cut(text, "/")
	n, err := strconv.ParseUint(done, 10, 32)
	if err == nil && both {
		var all uint64
		all, err = strconv.ParseUint(total, 10, 32)
		p.Total = uint32(all)
	}
	if err != nil {
		return fmt.Errorf("%s is not DONE or DONE/TOTAL, two whole numbers up to 4294967295", schedule.Quote(text))
	}
	p.Done = uint32(n)
	return nil
}

func (f progressFlag) note(text string) error {
	f.of().Note = text
	return nil
}

func (f progressFlag) of() *carillonv1.RunProgress {
	if f.req.Progress == nil {
		f.req.Progress = &carillonv1.RunProgress{}
	}
	return f.req.Progress
}

func (f progressFlag) register(flags *pflag.FlagSet) {
	flags.Func("progress", "with STARTED: how far the run is, as `DONE/TOTAL` or DONE", f.set)
	flags.Func("progress-note", "with STARTED: a `NOTE` on how far it is, at most 256 bytes", f.note)
}

// writeProblem writes why a part of a result was not kept.
func writeProblem(p *render.Page, problem string) {
	if problem != "" {
		p.Line("not all that was returned was kept: %s", problem)
	}
}

// addTo reads the files and the artifacts into a report.
func (f *resultFlags) addTo(c *client.Client, req *carillonv1.ReportRunRequest) (err error) {
	if f.file != "" {
		if req.Result, err = readResult(c, f.file); err != nil {
			return err
		}
	}
	for _, text := range f.artifacts {
		a := &carillonv1.RunArtifact{}
		if name, url, short := strings.Cut(text, "="); short && !strings.HasPrefix(text, "{") {
			a.Name, a.Url = name, url
		} else if err := readArtifact(text, a); err != nil {
			return fmt.Errorf("--artifact %s: %w; give NAME=URL or {\"name\": …, \"url\": …, \"bytes\": …, \"sha256\": …}", schedule.Quote(text), err)
		}
		req.Artifacts = append(req.Artifacts, a)
	}
	return nil
}

func readArtifact(text string, a *carillonv1.RunArtifact) error {
	if !strings.HasPrefix(text, "{") {
		return errors.New("it has no URL")
	}
	var members struct {
		Name   string  `json:"name"`
		URL    string  `json:"url"`
		Bytes  float64 `json:"bytes"`
		SHA256 string  `json:"sha256"`
	}
	in := json.NewDecoder(strings.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&members); err != nil {
		return fmt.Errorf("it is not the JSON of an artifact: %w", err)
	}
	a.Name, a.Url, a.Bytes, a.Sha256 = members.Name, members.URL, members.Bytes, members.SHA256
	return nil
}

// readResult reads JSON from a file or from stdin. The server would keep the end and leave out a bad
// result; a person at a terminal would rather correct it before the end is final.
func readResult(c *client.Client, path string) ([]byte, error) {
	in := c.In
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--result-file: %w", err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, schedule.MaxResult+1))
	if err != nil {
		return nil, fmt.Errorf("--result-file: %w", err)
	}
	if len(text) > schedule.MaxResult {
		return nil, fmt.Errorf("--result-file: it has more than %d bytes, the limit for a result: report the end without it, or write a smaller one", schedule.MaxResult)
	}
	if !json.Valid(text) {
		return nil, errors.New("--result-file: it is not JSON")
	}
	return text, nil
}
