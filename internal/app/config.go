package app

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/workflow/bucket"
)

// Config holds all settings. Its struct tags are the only source of defaults, bounds, environment
// variables (the name in upper case), flags (with dashes) and the table in docs/configuration.md.
type Config struct {
	TickMS               int    `name:"tick_ms" default:"1000" min:"50" max:"10000" help:"how often the leader plans"`
	LookaheadMS          int    `name:"lookahead_ms" default:"60000" min:"1000" max:"600000" help:"how far ahead slots become durable rows"`
	MaxCatchupPerTick    int    `name:"max_catchup_per_tick" default:"100" min:"1" max:"1000" help:"missed slots that one schedule catches up per tick"`
	DefaultOverlapPolicy string `name:"default_overlap_policy" default:"skip" oneof:"allow skip queue replace coalesce" help:"for schedules that do not set one"`
	DefaultCatchupPolicy string `name:"default_catchup_policy" default:"none" oneof:"none fire_immediately spread latest" help:"for schedules that do not set one"`
	DefaultExpect        string `name:"default_expect" default:"failure" oneof:"failure none" help:"alert when a schedule fails, and when it recovers; none = only schedules with expect.on_failure"`
	DefaultJitterMS      int    `name:"default_jitter_ms" default:"0" min:"0" max:"3600000" help:"for schedules that do not set one"`

	DefaultMaxInFlight int `name:"default_max_in_flight" default:"1" min:"1" max:"10000" help:"for dispatch queues that do not set max_in_flight"`
	QueuesMaxInFlight  int `name:"queues_max_in_flight" default:"0" min:"0" max:"10000" help:"runs of all dispatch queues together that may be in flight, of those that enter from now on; 0 = no bound"`
	DefaultMaxAttempts int `name:"default_max_attempts" default:"3" min:"1" max:"25" help:"for runs in dispatch queues where they, the retry policy of their schedule and that of their queue do not say it; 1 = no automatic retries"`
	DefaultBackoffMS   int `name:"default_backoff_ms" default:"10000" min:"1000" max:"86400000" help:"wait before the first automatic retry of a run in a dispatch queue, where neither the retry policy of its schedule nor that of its queue says it; the same in every process"`

	DefaultMaxBackoffMS int `name:"default_max_backoff_ms" default:"3600000" min:"1000" max:"86400000" help:"longest wait before an automatic retry of such a run; at least DEFAULT_BACKOFF_MS; the same in every process"`

	HTTPAddr    string `name:"http_addr" default:"127.0.0.1:8080" help:"REST, metrics and health"`
	GRPCAddr    string `name:"grpc_addr" default:"127.0.0.1:9090" help:"gRPC"`
	PublicURL   string `name:"public_url" help:"base URL for executors' reports and for links in notifications; with several processes an address that all share, such as a load balancer's (default: http://HTTP_ADDR)"`
	Environment string `name:"environment" help:"name of this installation, such as prod or staging; sent to executors and in notifications, shown in logs, metrics and the console; 1 to 32 of A–Z a–z 0–9 . _ -"`
	DataDir     string `name:"data_dir" default:"./.carillon" help:"SQLite database and files of the local executor"`
	DatabaseURL Secret `name:"database_url" secret:"true" help:"postgres://… or sqlite:PATH (default: sqlite in DATA_DIR)"`

	DatabaseWaitMS int `name:"database_wait_ms" default:"60000" min:"0" max:"3600000" help:"how long serve and migrate wait at startup for an unreachable Postgres"`

	WorkflowStore   string `name:"workflow_store" default:"db" oneof:"db dir blob none" help:"where the launcher loads DAGs from; none sends none; the same in registrar and launcher"`
	WorkflowDir     string `name:"workflow_dir" default:"./workflows" help:"WORKFLOW_STORE=dir: WORKFLOW_DIR/WORKFLOW_ID/VERSION.json for all owners, WORKFLOW_DIR/owners/USER_ID/WORKFLOW_ID/VERSION.json for one"`
	WorkflowBlobURL string `name:"workflow_blob_url" help:"WORKFLOW_STORE=blob: s3://BUCKET?region=…, with prefix=FOLDER/, endpoint=https://HOST and use_path_style=true as needed, or file:///FOLDER; holds WORKFLOW_ID/VERSION.json for all owners and owners/USER_ID/WORKFLOW_ID/VERSION.json for one"`

	Roles        string `name:"roles" default:"registrar,worker,launcher" help:"what this process does"`
	LauncherAddr string `name:"launcher_addr" help:"host:port of the launcher's gRPC, for a worker without that role"`
	LaunchQueue  string `name:"launch_queue" default:"none" oneof:"none redis" help:"redis: runs go through a Redis Stream to every process with the launcher role; the same in workers and launchers"`
	LeaderLock   string `name:"leader_lock" oneof:"postgres redis solo" help:"lock that speeds up failover (default: postgres on Postgres, solo on SQLite); the same in every worker, except during a change"`
	LeaderTTLMS  int    `name:"leader_ttl_ms" default:"10000" min:"2000" max:"60000" help:"time after which a hung leader is replaced"`
	Shards       int    `name:"shards" default:"1" min:"1" max:"64" help:"number of leaders that share the schedules; stored in the database, see carillon shards set"`
	RedisURL     Secret `name:"redis_url" secret:"true" help:"redis://:password@host:port/database for LEADER_LOCK=redis and LAUNCH_QUEUE=redis; use a separate database for this deployment"`

	Executor           string `name:"executor" default:"http" oneof:"http grpc local" help:"what runs workflows"`
	ExecutorURL        string `name:"executor_url" help:"http: URL with {workflow_id} and {version}; grpc: host:port"`
	ExecutorToken      Secret `name:"executor_token" secret:"true" help:"bearer token for the executor"`
	ExecutorCancelURL  string `name:"executor_cancel_url" help:"http: DELETE URL with {idempotency_key}, {run_id}, {schedule_id} or {scheduled_for}; without it a cancelled run is not stopped at the executor and overlap_policy replace is refused; the same in registrar and launcher"`
	ExecutorDialect    string `name:"executor_dialect" default:"carillon" oneof:"carillon graph" help:"http: the executor's API contract"`
	ExecutorFeedback   string `name:"executor_feedback" default:"reports" oneof:"reports none" help:"none: accepted is SUCCESS"`
	ExecutorTimeoutMS  int    `name:"executor_timeout_ms" default:"10000" min:"100" max:"60000" help:"timeout of one executor call"`
	InternalAPIToken   Secret `name:"internal_api_token" secret:"true" help:"bearer token of the launcher's graph run API, POST /api/internal/graphs/{workflow_id}/runs; at least 16 characters"`
	AllowLocalExecutor bool   `name:"allow_local_executor" default:"false" help:"EXECUTOR=local outside dev: it runs commands on this machine"`
	LocalExecutorRoles string `name:"local_executor_roles" help:"EXECUTOR=local: roles whose callers may store workflows, which are commands on this machine: any of operator, compiler, user, separated by commas; required if authentication is on; the same in registrar and launcher"`
	LocalExecutorUser  string `name:"local_executor_user" help:"EXECUTOR=local: user that runs the commands, a name or UID:GID; needs root or equivalent capabilities (default: the user of this process)"`
	ShutdownGraceMS    int    `name:"shutdown_grace_ms" default:"30000" min:"0" max:"3600000" help:"EXECUTOR=local: how long running commands may go on after SIGTERM; then they are stopped, and their runs are FAILED(interrupted)"`
	AllowEgress        string `name:"allow_egress" help:"where the local executor's HTTP steps and alerts may connect, in addition to ports 80 and 443 of the public internet: loopback, private, addresses, CIDR blocks, names, *.names, each also with :port; separated by commas (dev: loopback,private)"`
	ReportSecret       Secret `name:"report_secret" secret:"true" help:"signs report tokens; at least 16 characters; the same in every process (default: a random one stored in DATA_DIR)"`

	Auth                 string `name:"auth" oneof:"on off" help:"on: every call needs a token or a client certificate; off: everyone may do everything (default: on if an authentication method is configured; otherwise only loopback addresses are served)"`
	AllowedHosts         string `name:"allowed_hosts" help:"host names that HTTP_ADDR answers to in addition to IP addresses, localhost and the host of PUBLIC_URL: carillon.example.com, *.example.com; separated by commas. Others are refused on loopback, and where authentication is off on every address"`
	AuthJWKSURL          string `name:"auth_jwks_url" help:"URL of the keys (JWKS) that sign tokens (JWT)"`
	AuthJWTKeysFile      string `name:"auth_jwt_keys_file" help:"file with the keys instead: a JWKS, or public keys in PEM"`
	AuthJWTIssuer        string `name:"auth_jwt_issuer" help:"iss of every signed token"`
	AuthJWTAudience      string `name:"auth_jwt_audience" help:"aud of every signed token"`
	AuthJWTAlgorithms    string `name:"auth_jwt_algorithms" default:"EdDSA,ES256,RS256" help:"accepted signature algorithms; HS256 only alone"`
	AuthJWTMaxLifetimeMS int    `name:"auth_jwt_max_lifetime_ms" default:"3600000" min:"60000" max:"86400000" help:"longest accepted lifetime of a signed token"`
	AuthRolesClaim       string `name:"auth_roles_claim" default:"roles" help:"claim with the roles of a signed token; dots for nested objects"`
	AuthAccountsClaim    string `name:"auth_accounts_claim" default:"billing_accounts" help:"claim with the billing accounts on which a signed token of the role user may create grants"`
	AuthOwnerClaim       string `name:"auth_owner_claim" default:"sub" help:"claim with the user_id in a signed token of the role user"`
	AuthTokensFile       string `name:"auth_tokens_file" help:"YAML file with the hashes of static tokens; see carillon token new"`
	AuthMTLSRoles        string `name:"auth_mtls_roles" help:"roles by the URI of client certificates: spiffe://example.org/worker=worker,spiffe://example.org/ci=compiler+viewer"`
	TLSCertFile          string `name:"tls_cert_file" help:"certificate of both listeners, in PEM; read again when it changes"`
	TLSKeyFile           string `name:"tls_key_file" help:"private key of TLS_CERT_FILE"`
	TLSClientCAFile      string `name:"tls_client_ca_file" help:"CA of client certificates"`
	TLSClientAuth        string `name:"tls_client_auth" default:"optional" oneof:"optional required" help:"required: no connection without a client certificate"`
	TLSMinVersion        string `name:"tls_min_version" default:"1.3" oneof:"1.2 1.3" help:"oldest TLS version accepted"`
	MetricsToken         Secret `name:"metrics_token" secret:"true" help:"bearer token for /metrics, in addition to the roles operator and viewer; at least 16 characters"`
	LauncherTLS          string `name:"launcher_tls" default:"off" oneof:"off on" help:"how a worker calls LAUNCHER_ADDR"`
	LauncherCAFile       string `name:"launcher_ca_file" help:"LAUNCHER_TLS=on: CA of the launcher's certificate (default: system CAs)"`
	LauncherCertFile     string `name:"launcher_cert_file" help:"LAUNCHER_TLS=on: client certificate of the worker"`
	LauncherKeyFile      string `name:"launcher_key_file" help:"private key of LAUNCHER_CERT_FILE"`
	LauncherToken        Secret `name:"launcher_token" secret:"true" help:"static token of the role worker that the worker sends to LAUNCHER_ADDR"`
	RequireGrant         bool   `name:"require_grant" default:"false" help:"schedules without an execution grant are refused, and their runs SKIPPED(grant_denied); the same in every process"`
	CreditGateURL        string `name:"credit_gate_url" help:"billing service that checks whether an account can pay for input.model, before a schedule is created; see docs/grants.md"`
	CreditGateToken      Secret `name:"credit_gate_token" secret:"true" help:"bearer token for CREDIT_GATE_URL"`
	CreditGateDown       string `name:"credit_gate_down" default:"closed" oneof:"closed open" help:"closed: refuse such schedules while CREDIT_GATE_URL does not answer; open: allow them"`

	NotifyFile         string `name:"notify_file" help:"YAML file with notification targets (e-mail, Slack, PagerDuty, Teams, ntfy, webhooks) and routes; read again when it changes; see docs/notifications.md"`
	WebhookTargetsFile string `name:"webhook_targets_file" help:"YAML file with the targets of messages about the ends of runs in dispatch queues (name, url, secret_file, owners, retries); read again when it changes; see docs/queues.md"`
	AlertWebhookURL    Secret `name:"alert_webhook_url" secret:"true" help:"Standard Webhooks that get every notification, within what ALLOW_EGRESS lets through; several between commas; see docs/notifications.md"`
	AlertWebhookSecret Secret `name:"alert_webhook_secret" secret:"true" help:"whsec_…: the secret that signs them; one for each URL between commas, or one for all"`

	MisfireGraceMS   int `name:"misfire_grace_ms" default:"60000" min:"1000" max:"86400000" help:"how late a slot may be and still run normally"`
	RunTimeoutMS     int `name:"run_timeout_ms" default:"3600000" min:"1000" max:"2592000000" help:"for schedules that do not set one: time without a report after which a run is FAILED(timeout)"`
	ClaimLeaseMS     int `name:"claim_lease_ms" default:"30000" min:"1000" max:"600000" help:"time after which a launch without an answer is sent again"`
	LaunchRetryForMS int `name:"launch_retry_for_ms" default:"600000" min:"1000" max:"86400000" help:"how long launches to an unreachable executor are retried"`
	CancelWaitMS     int `name:"cancel_wait_ms" default:"30000" min:"1000" max:"600000" help:"time after which an unconfirmed cancel ends the run"`
	RetentionDays    int `name:"retention_days" default:"90" min:"30" max:"3650" help:"how long ended runs, events and keys are kept"`
	MaxLaunches      int `name:"max_launches" default:"20000" min:"1" max:"100000" help:"concurrent launches of a worker; one owner has at most nine tenths of them"`
	MaxCalls         int `name:"max_calls" default:"2000" min:"1" max:"100000" help:"concurrent executor calls of a launcher, others wait; one owner has at most nine tenths of them"`

	OwnerMaxSchedules int `name:"owner_max_schedules" default:"1000" min:"0" max:"10000000" help:"schedules per owner; 0: unlimited"`
	OwnerMaxQueues    int `name:"owner_max_queues" default:"20" min:"0" max:"10000000" help:"dispatch queues per owner that a caller of role user may create; 0: unlimited"`
	OwnerMaxWaiting   int `name:"owner_max_waiting" default:"1000000" min:"0" max:"100000000" help:"runs of an owner that wait in dispatch queues, at which those of a caller of role user are refused; 0: unlimited"`
	OwnerMaxPending   int `name:"owner_max_pending" default:"100000" min:"0" max:"100000000" help:"entries of consumers' inboxes of an owner that are pending, at which events of a caller of role user or publisher are refused; 0: unlimited"`
	OwnerEventsPerS   int `name:"owner_events_per_s" default:"1000" min:"0" max:"1000000" help:"published events per second, per owner and process; burst: twice that; 0: unlimited"`
	OwnerWritesPerS   int `name:"owner_writes_per_s" default:"20" min:"0" max:"1000000" help:"changing calls per second, per owner and process; burst: twice that; 0: unlimited"`
	OwnerReadsPerS    int `name:"owner_reads_per_s" default:"100" min:"0" max:"1000000" help:"reading calls per second, per owner and process; burst: twice that; 0: unlimited"`

	CallerRefusalsPerS int `name:"caller_refusals_per_s" default:"50" min:"1" max:"1000000" help:"refused calls per second of one known caller (changing calls, or not allowed by its roles); burst: twice that; beyond it such calls are rejected unread"`
	RunReportsPerS     int `name:"run_reports_per_s" default:"10" min:"0" max:"1000000" help:"reports per second of one run, per process; burst: twice that; 0: unlimited"`
	ReportLateMS       int `name:"report_late_ms" default:"86400000" min:"60000" max:"2592000000" help:"how long a report token is accepted after its run ended"`

	MaxConnections        int `name:"max_connections" default:"2000" min:"10" max:"1000000" help:"concurrent connections on HTTP_ADDR, and as many on GRPC_ADDR; at the limit the unauthenticated one that is idle longest is closed"`
	MaxConnectionsPerPeer int `name:"max_connections_per_peer" default:"500" min:"10" max:"1000000" help:"concurrent unauthenticated connections of one IPv4 address or IPv6 /64 network; a proxy is one peer"`

	LogURLTemplate   string `name:"log_url_template" help:"where people find the log of a run that reported no log_url of its own: a URL with {key}, {run_id}, {trace_id}, {schedule_id}, {workflow_id}, {user_id}, {attempt}, {scheduled_for}"`
	TraceURLTemplate string `name:"trace_url_template" help:"where people find the trace of a run; the same placeholders"`
	LogMask          string `name:"log_mask" help:"regular expression (RE2): what it matches in the output of runs is kept as ***, in addition to known forms of secrets; the same in registrar and launcher"`
	LogRetentionDays int    `name:"log_retention_days" default:"30" min:"1" max:"3650" help:"how long the output of runs is kept; at most RETENTION_DAYS"`

	ResultRetentionDays int `name:"result_retention_days" default:"7" min:"1" max:"3650" help:"how long results and artifacts of runs are kept after their end; at most RETENTION_DAYS, a larger value is refused; the same in registrar and launcher"`

	LogLevel  string `name:"log_level" default:"info" oneof:"debug info warn error" help:"minimum log level"`
	LogFormat string `name:"log_format" default:"json" oneof:"json text" help:"log format on stderr"`
}

// Setting is one row of the configuration table.
type Setting struct {
	Name    string // TICK_MS
	Flag    string // tick-ms
	Default string
	Help    string
	Bounds  string // "50 to 10000", "one of …"
	Secret  bool
}

// Settings returns the configuration table.
func Settings() []Setting {
	var out []Setting
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		key := f.Tag.Get("name")
		s := Setting{
			Name: strings.ToUpper(key), Flag: strings.ReplaceAll(key, "_", "-"),
			Default: f.Tag.Get("default"), Help: f.Tag.Get("help"), Secret: f.Tag.Get("secret") == "true",
		}
		if lowest := f.Tag.Get("min"); lowest != "" {
			s.Bounds = lowest + " to " + f.Tag.Get("max")
		} else if words := f.Tag.Get("oneof"); words != "" {
			s.Bounds = "one of " + strings.ReplaceAll(words, " ", ", ")
		}
		out = append(out, s)
	}
	return out
}

// Flags adds a flag for every setting except secrets: a process list would show them. overrides are
// the defaults of the command, as in Load.
func Flags(fs FlagSet, overrides map[string]any) {
	for _, s := range Settings() {
		if own, ok := overrides[strings.ToLower(s.Name)]; ok {
			s.Default = fmt.Sprint(own)
		}
		if s.Secret {
			continue
		}
		help := s.Help
		if s.Bounds != "" {
			help += " (" + s.Bounds + ")"
		}
		if s.Default == "true" || s.Default == "false" {
			fs.Bool(s.Flag, s.Default == "true", help)
			continue
		}
		fs.String(s.Flag, s.Default, help)
	}
	for _, s := range Settings() {
		if s.Secret {
			fs.String(s.Flag+"-file", "", "a file that holds "+s.Name)
		}
	}
	fs.String("config", "", "YAML file with settings, named as in the environment but in lower case")
}

func (c *Config) checkEnvironment() error {
	if environmentName.MatchString(c.Environment) {
		return nil
	}
	return fmt.Errorf("ENVIRONMENT: %q is not a name: 1 to 32 of A–Z a–z 0–9 . _ -, the first a letter or digit", c.Environment)
}

// environmentName also matches an unset ENVIRONMENT. The value appears in metric labels, headers and
// URLs, so characters that need escaping are not allowed.
var environmentName = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]{0,31})?$`)

// Validate returns all errors joined, each with the value and its bounds.
func (c *Config) Validate() error {
	problems := c.bounds()
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, role := range c.roles() {
		if !slices.Contains([]string{"registrar", "worker", "launcher"}, role) {
			problem("ROLES: %q is not one of registrar, worker, launcher", role)
		}
	}
	if c.Has("worker") && !c.Has("launcher") && c.LauncherAddr == "" && c.LaunchQueue != "redis" {
		problem("LAUNCHER_ADDR: is required for a worker without the launcher role, unless LAUNCH_QUEUE=redis")
	}
	if c.LaunchQueue == "redis" && c.RedisURL == "" && (c.Has("worker") || c.Has("launcher")) {
		problem("REDIS_URL: is required for LAUNCH_QUEUE=redis, e.g. redis://127.0.0.1:6379/0")
	}
	if c.Has("launcher") && c.Executor != "local" && c.ExecutorURL == "" {
		problem("EXECUTOR_URL: is required for EXECUTOR=%s; `carillon dev` runs workflows on this machine", c.Executor)
	}
	if c.WorkflowStore == "blob" {
		if err := bucket.CheckURL(c.WorkflowBlobURL); err != nil {
			problem("WORKFLOW_BLOB_URL: %w", err)
		}
	}
	if c.DatabaseURL != "" && !c.OnPostgres() && !strings.HasPrefix(c.DatabaseURL.Reveal(), "sqlite:") {
		problem("DATABASE_URL: starts with neither postgres:// nor sqlite:")
	}
	for name, addr := range map[string]string{"HTTP_ADDR": c.HTTPAddr, "GRPC_ADDR": c.GRPCAddr} {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			problem("%s: %q is not host:port", name, addr)
		}
	}
	if c.LauncherAddr != "" && !validAddr(c.LauncherAddr) {
		problem("LAUNCHER_ADDR: %q is not host:port; it is the launcher's GRPC_ADDR as this process reaches it, e.g. 10.0.0.5:9090", c.LauncherAddr)
	}
	if u, err := url.Parse(c.PublicURL); c.PublicURL != "" && (err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http")) {
		problem("PUBLIC_URL: %q is not an http or https URL", c.PublicURL)
	}
	if _, err := safehttp.ParsePolicy(c.AllowEgress); err != nil {
		problem("ALLOW_EGRESS: %w", err)
	}
	if c.DefaultMaxBackoffMS < c.DefaultBackoffMS {
		problem("DEFAULT_MAX_BACKOFF_MS: %d is less than DEFAULT_BACKOFF_MS %d: no retry could wait for as long as the first one; raise it to %d at least", c.DefaultMaxBackoffMS, c.DefaultBackoffMS, c.DefaultBackoffMS)
	}
	if c.LookaheadMS < c.TickMS {
		problem("LOOKAHEAD_MS: %d is less than TICK_MS %d: slots would be planned late", c.LookaheadMS, c.TickMS)
	}
	if c.LeaderLock == "postgres" && !c.OnPostgres() {
		problem("LEADER_LOCK: postgres needs a Postgres DATABASE_URL")
	}
	if c.LeaderLock == "solo" && c.OnPostgres() {
		problem("LEADER_LOCK: solo is for SQLite")
	}
	if c.LeaderLock == "redis" && c.RedisURL == "" {
		problem("REDIS_URL: is required for LEADER_LOCK=redis, e.g. redis://127.0.0.1:6379/0")
	}
	if scheme, _, _ := strings.Cut(c.RedisURL.Reveal(), "://"); c.RedisURL != "" && scheme != "redis" && scheme != "rediss" && scheme != "unix" {
		problem("REDIS_URL: starts with none of redis://, rediss:// and unix://") // the URL may contain a password
	}
	problems = append(problems, c.authProblems()...)
	problems = append(problems, c.tokenProblems()...)
	problems = append(problems, c.localExecutorProblems()...)
	problems = append(problems, c.checkCredit(), c.checkAlerts(), c.checkEnvironment(), c.checkAllowedHosts(), c.checkOutput())
	return errors.Join(problems...)
}

// validAddr reports whether addr is HOST:PORT with both parts.
func validAddr(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || strings.ContainsFunc(host, func(r rune) bool { return unicode.IsSpace(r) || r == '/' }) {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= 1 && n <= 65535
}

// CheckServe refuses settings that only dev may use.
func (c *Config) CheckServe() error {
	if c.Has("launcher") && c.Executor == "local" && !c.AllowLocalExecutor {
		return errors.New("EXECUTOR: local runs commands on this machine; outside dev this needs ALLOW_LOCAL_EXECUTOR=true")
	}
	return nil
}

func (c *Config) bounds() []error {
	var problems []error
	v := reflect.ValueOf(c).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		name := strings.ToUpper(f.Tag.Get("name"))
		field := v.FieldByIndex(f.Index)
		if lowest := f.Tag.Get("min"); lowest != "" {
			low, _ := strconv.ParseInt(lowest, 10, 64)
			high, _ := strconv.ParseInt(f.Tag.Get("max"), 10, 64)
			if n := field.Int(); n < low || n > high {
				problems = append(problems, fmt.Errorf("%s: %d is not within %d to %d", name, n, low, high))
			}
		}
		if words := strings.Fields(f.Tag.Get("oneof")); len(words) > 0 && field.String() != "" && !slices.Contains(words, field.String()) {
			problems = append(problems, fmt.Errorf("%s: %q is not one of %s", name, field.String(), strings.Join(words, ", ")))
		}
	}
	return problems
}

func (c *Config) roles() []string {
	var roles []string
	for role := range strings.SplitSeq(c.Roles, ",") {
		roles = append(roles, strings.TrimSpace(role))
	}
	return roles
}

// Has reports whether this process has the role.
func (c *Config) Has(role string) bool { return slices.Contains(c.roles(), role) }

// OnPostgres reports whether DATABASE_URL is a Postgres database.
func (c *Config) OnPostgres() bool {
	dsn := c.DatabaseURL.Reveal()
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// queuedRetry is the retry policy of runs in queues where neither their schedule nor their queue has one.
func (c *Config) queuedRetry() schedule.RetryPolicy {
	return schedule.QueuedRetry(uint32(c.DefaultMaxAttempts), uint32(c.DefaultBackoffMS), uint32(c.DefaultMaxBackoffMS))
}

func (c *Config) retention() time.Duration { return time.Duration(c.RetentionDays) * 24 * time.Hour }

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }
