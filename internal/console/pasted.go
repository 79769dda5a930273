package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// pasted reads definitions of schedules in JSON or YAML: one, a list, a file of carillon apply, an
// API response, or a whole request to simulate. It lists members that a simulation ignores.
func (f *scenarioForm) pasted() *carillonv1.SimulateSchedulesRequest {
	if len(f.view.Pasted) > maxPasted {
		f.wrong("pasted", "has %d bytes, more than %d; use carillon simulate --file", len(f.view.Pasted), maxPasted)
		return nil
	}
	whole := make(map[string]any)
	var found []any
	for documents := yaml.NewDecoder(strings.NewReader(f.view.Pasted)); ; {
		var document any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			f.wrong("pasted", "is neither JSON nor YAML: %.200s", strings.TrimPrefix(err.Error(), "yaml: "))
			return nil
		}
		found = append(found, f.schedulesIn(document, whole)...)
	}
	if len(found) == 0 && len(f.problems) == 0 {
		f.wrong("pasted", "has no schedule; paste a definition or a list of definitions")
	}
	if len(f.problems) > 0 {
		return nil
	}
	whole["schedules"] = found
	return f.decoded(whole)
}

// scenarioFields are the fields of a whole request besides its schedules.
var scenarioFields = []string{"from", "until", "outages", "executor_outages", "seed"}

// schedulesIn are the schedules of one document; its other fields are copied to whole.
func (f *scenarioForm) schedulesIn(document any, whole map[string]any) (found []any) {
	switch is := document.(type) {
	case nil:
		return nil
	case []any:
		for _, one := range is {
			found = append(found, f.schedulesIn(one, whole)...)
		}
		return found
	case map[string]any:
		if one, ok := is["schedule"].(map[string]any); ok {
			return []any{f.known(one)}
		}
		list, ok := is["schedules"].([]any)
		if !ok {
			return []any{f.known(is)}
		}
		for _, name := range scenarioFields {
			if value, ok := is[name]; ok {
				whole[name] = value
			}
		}
		return f.schedulesIn(list, whole)
	}
	f.wrong("pasted", "%.40q is not a schedule definition", fmt.Sprint(document))
	return nil
}

// known is a definition without the members that a simulation ignores and without the empty rules
// of an API response.
func (f *scenarioForm) known(definition map[string]any) map[string]any {
	fields := (&carillonv1.SimulatedSchedule{}).ProtoReflect().Descriptor().Fields()
	out := make(map[string]any, len(definition))
	for _, name := range slices.Sorted(maps.Keys(definition)) {
		value := definition[name]
		empty := value == nil || name == "cron_expr" && value == "" || name == "interval_ms" && value == 0
		switch {
		case empty:
		case fields.ByName(protoreflect.Name(name)) != nil:
			out[name] = value
		case !f.leftOut[name]:
			if f.leftOut == nil {
				f.leftOut = make(map[string]bool)
			}
			f.leftOut[name] = true
			f.view.LeftOut = append(f.view.LeftOut, name)
		}
	}
	return out
}

// decoded is the request that was pasted, by the rules of REST.
func (f *scenarioForm) decoded(whole map[string]any) *carillonv1.SimulateSchedulesRequest {
	text, err := json.Marshal(whole)
	if err != nil {
		f.wrong("pasted", "is not valid in JSON: %.200s", err)
		return nil
	}
	req := &carillonv1.SimulateSchedulesRequest{}
	err = rawjson.Unmarshal(text, req)
	var invalid *schedule.InvalidError
	switch {
	case errors.As(err, &invalid):
		for _, one := range invalid.Violations {
			f.problems = append(f.problems, violation{one.Field, strings.TrimSpace(one.Problem + " " + one.Hint)})
		}
		return nil
	case err != nil:
		f.wrong("pasted", "is invalid: %.200s", err)
		return nil
	}
	return req
}
