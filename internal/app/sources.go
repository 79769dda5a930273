package app

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// FlagSet is the part of a command's flags that settings need.
type FlagSet interface {
	String(name, value, usage string) *string
	Bool(name string, value bool, usage string) *bool
	Changed(name string) bool
	GetString(name string) (string, error)
	GetBool(name string) (bool, error)
}

// values are settings as text by name in lower case.
type values map[string]string

// Load reads the settings. Later sources take precedence: defaults, overrides (of a command such as
// dev), the YAML file, the environment, flags on the command line.
func Load(fs FlagSet, overrides map[string]any) (Config, error) {
	found, known := make(values), make(map[string]bool)
	for _, s := range Settings() {
		key := strings.ToLower(s.Name)
		found[key], known[key] = s.Default, true
		if s.Secret {
			known[key+fileSuffix] = true
		}
	}
	for key, value := range overrides {
		found[key] = asText(value)
	}
	if path, err := fs.GetString("config"); err == nil && path != "" {
		if err := found.addFile(path, known); err != nil {
			return Config{}, err
		}
	}
	for key := range known {
		if value, ok := os.LookupEnv(strings.ToUpper(key)); ok { // also if empty
			found[key] = value
		}
		if value, ok := given(fs, strings.ReplaceAll(key, "_", "-")); ok {
			found[key] = value
		}
	}
	if err := found.readSecrets(); err != nil {
		return Config{}, err
	}
	var cfg Config
	if err := cfg.fill(found); err != nil {
		return Config{}, err
	}
	return cfg, cfg.Scrub(cfg.Validate())
}

// given returns the value of a flag on the command line.
func given(fs FlagSet, name string) (value string, ok bool) {
	if !fs.Changed(name) {
		return "", false
	}
	if value, err := fs.GetString(name); err == nil {
		return value, true
	}
	yes, err := fs.GetBool(name)
	return strconv.FormatBool(yes), err == nil
}

// addFile adds the settings of a YAML file. An unknown name is an error, because it may be misspelt.
func (v values) addFile(path string, known map[string]bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read settings from %s: %w", path, err)
	}
	var settings map[string]any
	if err := yaml.Unmarshal(text, &settings); err != nil {
		return fmt.Errorf("read settings from %s: %w", path, err)
	}
	flat := make(values)
	for key, value := range settings {
		flat.addNested(key, value)
	}
	for _, key := range slices.Sorted(maps.Keys(flat)) {
		if !known[key] {
			return fmt.Errorf("%s: %q is not a setting", path, key)
		}
		v[key] = flat[key]
	}
	return nil
}

// addNested adds nested values under their path, such as http.addr.
func (v values) addNested(path string, value any) {
	nested, _ := value.(map[string]any)
	for key, inner := range nested {
		v.addNested(path+"."+key, inner)
	}
	if len(nested) == 0 {
		v[path] = asText(value)
	}
}

func asText(value any) string {
	if value == nil { // "name:" in YAML
		return ""
	}
	return fmt.Sprint(value)
}

// fill sets the fields by their kind and returns the errors of all invalid values.
func (c *Config) fill(found values) error {
	var problems []error
	v := reflect.ValueOf(c).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		key := f.Tag.Get("name")
		text := strings.TrimSpace(found[key])
		field := v.FieldByIndex(f.Index)
		switch f.Type.Kind() {
		case reflect.String:
			field.SetString(text)
		case reflect.Int:
			n, err := strconv.Atoi(text)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %q is not a whole number", strings.ToUpper(key), text))
				continue
			}
			field.SetInt(int64(n))
		case reflect.Bool:
			b, err := strconv.ParseBool(text)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %q is neither true nor false", strings.ToUpper(key), text))
				continue
			}
			field.SetBool(b)
		}
	}
	return errors.Join(problems...)
}
