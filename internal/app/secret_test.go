package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/app"
)

func TestASecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	type holder struct{ Token app.Secret }
	secret := app.Secret("canary-of-a-secret")
	asJSON, err := json.Marshal(holder{secret})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", secret, "holder", holder{secret})
	texts := []string{string(asJSON), log.String(), fmt.Sprint(secret), secret.String()}
	for _, verb := range []string{"%s", "%q", "%v", "%+v", "%#v", "%x", "%X", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, secret), fmt.Sprintf(verb, holder{secret}), fmt.Sprintf(verb, &holder{secret}))
	}
	for _, text := range texts {
		if strings.Contains(text, "canary") || strings.Contains(text, fmt.Sprintf("%x", "canary")) {
			t.Errorf("shown: %s", text)
		}
	}
	if secret.Reveal() != "canary-of-a-secret" {
		t.Error("the secret itself is lost")
	}
}

func TestEverySecretSettingHasTheTypeSecret(t *testing.T) {
	t.Parallel()
	secretName := regexp.MustCompile(`(^|_)(token|secret|password|dsn)s?$|^(database|redis)_url$`)
	fields := reflect.VisibleFields(reflect.TypeFor[app.Config]())
	for _, f := range fields {
		key := f.Tag.Get("name")
		marked, typed := f.Tag.Get("secret") == "true", f.Type == reflect.TypeFor[app.Secret]()
		if marked != typed {
			t.Errorf("%s: marked as a secret is %v, and of type Secret is %v", key, marked, typed)
		}
		if secretName.MatchString(key) && !marked {
			t.Errorf("%s: is named like a secret and not marked as one", key)
		}
	}
}

func TestASecretIsReadFromItsFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token := write("token", "canary-token\n")
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		want string // of the token; or
		err  string
	}{
		{name: "by the environment", env: map[string]string{"EXECUTOR_TOKEN_FILE": token}, want: "canary-token"},
		{name: "by a flag", args: []string{"--executor-token-file", token}, want: "canary-token"},
		{name: "by the settings file", args: []string{"--config", write("c.yaml", "executor_token_file: "+token+"\n")}, want: "canary-token"},
		{name: "by its value", env: map[string]string{"EXECUTOR_TOKEN": "plain"}, want: "plain"},
		{name: "by both", env: map[string]string{"EXECUTOR_TOKEN_FILE": token, "EXECUTOR_TOKEN": "plain"}, err: "EXECUTOR_TOKEN and EXECUTOR_TOKEN_FILE are both set"},
		{name: "by a file that is not there", env: map[string]string{"EXECUTOR_TOKEN_FILE": token + "x"}, err: "EXECUTOR_TOKEN_FILE: open " + token + "x: no such file"},
		{name: "by an empty file", env: map[string]string{"EXECUTOR_TOKEN_FILE": write("empty", " \n")}, err: "is empty"},
		{name: "by a file of the wrong kind", env: map[string]string{"EXECUTOR_TOKEN_FILE": write("large", strings.Repeat("x", 64<<10+1))}, err: "more than 65536 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			cfg, err := load(t, c.args...)
			switch {
			case c.err == "" && err != nil:
				t.Error(err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("error is %v; want it to say %q", err, c.err)
			case c.err == "" && cfg.ExecutorToken.Reveal() != c.want:
				t.Errorf("the token is %q, want %q", cfg.ExecutorToken.Reveal(), c.want)
			}
		})
	}
}

func TestAnErrorNeverRepeatsAPassword(t *testing.T) {
	for _, c := range []struct{ name, database, redis string }{
		{"a server that is not there", "postgres://u:canary-password@127.0.0.1:1/x", ""},
		{"a URL that does not parse", "postgres://u:canary-%zz-password@127.0.0.1:1/x", ""},
		{"a port that is none", "postgres://u:canary-password@127.0.0.1:port/x", ""},
		{"a password in the query", "postgres://127.0.0.1:1/x?user=u&password=canary-password&sslmode=nonsense", ""},
		{"a password with an @", "postgres://u:canary@password@127.0.0.1:port/x", ""},
		{"a Redis that does not parse", "", "redis://:canary-%zz-password@127.0.0.1:1/0"},
		{"a Redis whose database is none", "", "redis://:canary-password@127.0.0.1:1/zero"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("DATABASE_URL", c.database)
			t.Setenv("REDIS_URL", c.redis)
			t.Setenv("DATABASE_WAIT_MS", "100")
			t.Setenv("DATA_DIR", t.TempDir())
			t.Setenv("HTTP_ADDR", "127.0.0.1:0")
			t.Setenv("GRPC_ADDR", "127.0.0.1:0")
			if c.redis != "" {
				t.Setenv("LEADER_LOCK", "redis")
			}
			cfg, err := load(t)
			if err == nil {
				_, err = app.New(t.Context(), cfg, app.Options{Logger: slog.New(slog.DiscardHandler), Migrate: true})
			}
			if err == nil {
				t.Fatal("it started")
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				if text := e.Error(); strings.Contains(text, "canary") {
					t.Errorf("the error tells the password: %s", text)
				}
			}
		})
	}
}

func TestALogNeverRepeatsASecret(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		cfg := app.Config{
			LogFormat: format, LogLevel: "debug", ExecutorToken: `canary "token"`, ReportSecret: "canary-report",
			DatabaseURL: "postgres://u:canary-database@h/x", RedisURL: "redis://:canary%2Fredis@h/0",
		}
		var out strings.Builder
		log := app.NewLogger(&out, cfg).With("with", "Bearer "+cfg.ExecutorToken.Reveal())
		log.Info("message with canary-report", "err", errors.New(`parse "`+cfg.DatabaseURL.Reveal()+`": no`), "plain", "canary/redis", "cfg", cfg)
		if strings.Contains(out.String(), "canary") {
			t.Errorf("%s: the log tells a secret: %s", format, out.String())
		}
		if !strings.Contains(out.String(), "message with ***") {
			t.Errorf("%s: the line is lost: %s", format, out.String())
		}
	}
}
