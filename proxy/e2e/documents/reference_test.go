package documents

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"penstock/config/testkit/golden"
	"penstock/proxy/e2e/rig"
	"penstock/proxy/request/hook"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

// generatedNotice is the notice on every generated page.
const generatedNotice = "\n<!-- Made from the code: go test ./proxy/e2e/documents -run '^TestReference' -update writes it anew. -->\n\n"

// page compares a generated page with its file, whose path is relative to the top of the
// repository.
func page(t *testing.T, file, title, intro, body string) {
	t.Helper()
	golden.CompareFile(t, filepath.Join(repoRoot, file), []byte("# "+title+"\n"+generatedNotice+intro+"\n\n"+strings.TrimSpace(body)+"\n"))
}

// row returns a row of a table. It escapes bars, because a bar would end the cell.
func row(cells ...string) string {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

func TestReferenceMetrics(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(row("metric", "type", "meaning") + "| --- | --- | --- |\n")
	for _, f := range observe.MetricFamilies() {
		b.WriteString(row("`"+f.Name+"`", string(f.Kind), f.Help))
	}
	page(t, "proxy/operate/reference/metrics.md", "Metrics",
		"`/metrics` at the admin listener, in Prometheus' text format. Labels hold configured names and words of closed sets, never text of a client. A board and\n"+
			"alert rules for them are in [.deploy/](../../../.deploy/README.md).", b.String())
}

var logFields = map[string]string{
	"request_id": "The id that the client gets as `x-request-id`.", "key": "Id of the key, or of the caller with a token.",
	"dialect": "chat, messages, responses and so on.", "model": "The model's id, whatever alias was asked for.",
	"upstream": "The upstream that was asked last.", "pool": "text, vision or audio.", "stream": "Whether the client asked for a stream.",
	"status": "HTTP status; 499 for a client that left.", "code": "The [error's code](errors.md); of a good call a dash.",
	"outcome":  "ok, client_error, limited, no_route, upstream_fail (before the first byte), stream_broken (after it), timeout, client_gone, drained, internal.",
	"attempts": "How many tries were made; 0 when none was.", "prompt_tokens": "As the engine counts, cached ones included.",
	"completion_tokens": "As the engine counts, reasoning included.", "tokens_estimated": "The engine reported none, so they are an estimate.",
	"queue_ms": "How long it waited for a slot.", "ttft_ms": "From the request's head to the first event; of a plain answer to its last byte.",
	"duration_ms": "From the request's head to the last byte.", "bytes_in": "Bytes of the request's body.", "bytes_out": "Bytes of the answer.",
	"cached_tokens":          "Part of `prompt_tokens` that the engine had in its cache, as it reports; only if it had some.",
	"choice":                 "Why the upstream was picked among several: `cached` (the answer was expected soonest there, and the engine held a part of the prompt), `soonest` (likewise, and it held nothing), `home` (the conversation's home: no engine was known to hold it, or another edge had sent it there), `only` (no other one had room, or those that had room had failed the call), `unmeasured` (no speed was known yet, so tokens to be read and calls decided); only where there is a choice.",
	"expected_cached_tokens": "Part of `prompt_tokens` that the engine was believed to have in its cache when it was picked; beside `choice`.",
	"asked_model":            "The model that the client asked for; only if another one answered in its place (`fallback`).",
	"nearest_model":          "The model of the configuration that the client may have meant; only if it asked for a name that is no model's, and one is like it. The name itself is a client's string and not logged.",
	"arm":                    "Arm of the upstream that was asked last, a dash if it has none; only of models with arms (`deployments[].traffic`) or a shadow.",
	"missed_arm":             "Arm that the call is of; only if it ended elsewhere.",
	"class":                  "Class of the key, if it has one.",
	"client":                 "The peer's address, with `log.client: true`; a dash otherwise.",
	"session":                "A hash of the session that the client names, with `log.sessions: true`: in a header of Claude Code, Codex or opencode, `X-Session-Id`, `X-Session-Affinity`, the session in `metadata.user_id` of Messages, or else `prompt_cache_key`. Only if it names one. It tells sessions apart, is keyed with a secret of the process, and is another one after a restart.",
	"dropped":                "What was left out of the request, as in `x-penstock-dropped`; only if something was.",
	"proxy_request_id":       "The `X-Request-Id` that a proxy of `listen_trusted` gave the request, with `trust_request_id: true`; only if it gave a plain one.",
	"hook_ms":                "How long the call waited for hooks; only if one was asked.",
	"hook_detail":            "What was wrong with the answer of a hook that gave no decision, one of the [details](#answers-of-hooks); only if it answered.",
	"cause":                  "Why the attempt failed that the call ended with, one of the [causes](#causes); only if an engine failed the call, or a hook did.",
	"engine_status":          "The HTTP status of the engine's answer to that attempt; only if it answered.",
	"left_in_phase":          "In which [phase](#states) the client left: `waiting`, `streaming` and so on; `stalled` if it stopped reading. Only if it left.",
	"failed_attempts":        "Every attempt that failed, oldest first, whether or not a later one was answered: a list of objects with the [fields below](#failed-attempts); only if one did.",
	"resumed":                "How often another engine went on with the stream; only if one did.", "tier": "Tier of the upstream; only above 0.",
}

// acmeFields explains the fields of lines about certificates obtained by ACME.
var acmeFields = map[string]string{
	"domain": "The domain of `tls.acme.domains`.", "not_after": "Until when the certificate is good.",
	"problem": "Why it was not obtained, with the authority's words.", "failures": "How often in a row.",
	"next_try_in_s": "Seconds until it is tried again.",
}

var attemptFields = map[string]string{
	"upstream": "The upstream that was asked.", "cause": "Why the attempt failed, one of the [causes](#causes).",
	"engine_status": "The HTTP status of the engine's answer; only if it answered.",
	"after_ms":      "From the request's head to the begin of the attempt, waits for a slot and earlier attempts included.",
	"took_ms":       "How long the attempt took.",
}

var attemptField = regexp.MustCompile(`o\.Add\w+\("(\w+)"`)

var failedLineFields = map[string]string{
	"request_id": "That of the call.", "upstream": "The upstream that was asked last.", "code": "The [error's code](errors.md).",
	"cause": "One of the [causes](#causes); empty if no engine was asked, because the request had cost two of them before.", "engine_status": "The HTTP status of the engine's answer; 0 if it did not answer.",
}

// edgeFields explains the fields of lines about the edge's state. keyFields explains the fields of
// lines about a key over a limit.
var (
	edgeFields = map[string]string{
		"event":  "`edge_degraded` (warn), `edge_failing` (error), `edge_out` (error) or `edge_ok` (info); see [Events](#events).",
		"state":  "The first sentence of the status page: what is wrong where, which share of how many calls, why.",
		"remedy": "What to do: commands that print it, or what to change.",
	}
	keyFields = map[string]string{
		"event": "`key_over_limit`.", "key": "The key's id.", "limit": "The limit; with `group_` in front, of the key's group.",
		"refused": "Calls that it refused in the last minute.", "model": "The model that was asked for.",
		"used": "The used part; of budgets alone.", "of": "The limit's value; likewise.", "until": "When the budget begins anew; likewise.",
		"remedy": "What to change, and a command that explains the limit.",
	}
)

// findWords returns the words that a pattern matches in a source file, between a given text and the
// end of its declaration.
func findWords(t *testing.T, file, from, pattern string) (words []string) {
	t.Helper()
	_, text, ok := strings.Cut(read(t, file), from)
	if !ok {
		t.Fatalf("%s has no %s", file, from)
	}
	end := len(text)
	for _, mark := range []string{"\n}\n", "\n)\n"} {
		if i := strings.Index(text, mark); i >= 0 {
			end = min(end, i)
		}
	}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text[:end], -1) {
		words = append(words, m[1])
	}
	return words
}

// events explains the other log lines that have an event.
var events = map[string]string{
	"upstream_up":         "An engine answers its probes again.",
	"upstream_pending":    "An engine has not been probed yet, so it gets calls only if no other one is up.",
	"upstream_busy":       "An engine has calls and does not answer its probes. It keeps its calls and gets no new ones until it does. Some engines are so during each call.",
	"upstream_suspect":    "A busy engine has sent nothing `for` 10 s, or for longer than its answers take: it is busy or has stopped. Look at its process, its log and `nvidia-smi`; `penstock drain NAME` takes it out. It is down after a minute of silence, see `PenstockUpstreamDown`.",
	"upstream_down":       "An engine does not answer; `cause` says why. `PenstockUpstreamDown` says what to do.",
	"upstream_stalled":    "An engine has work and nothing moves. `PenstockUpstreamStalled` says what to do.",
	"edge_ok":             "The first sentence of the status page names no trouble any more.",
	"edge_degraded":       "The first sentence of the status page has changed: something is wrong, and most calls are answered. `state` is the sentence, `remedy` what to do.",
	"edge_failing":        "The first sentence of the status page has changed: at least half of a model's calls of the last minute (five or more) failed or found it full, or no client can connect. `state` is the sentence, `remedy` what to do.",
	"edge_out":            "The first sentence of the status page has changed: no engine serves a model. `PenstockModelWithoutEngine` says what to do.",
	"key_over_limit":      "A limit of a key refuses its calls. The owner of the key has to wait, or the limit has to be raised; `remedy` names it.",
	"key_within_limit":    "A limit of a key that had a line `key_over_limit` has refused no call for five minutes, or was changed four minutes ago; `key`, `limit`.",
	"upstream_lacks":      "An engine refuses a `feature` (tools, forced_tool, json_schema and so on) that others of its model answer: `refused` calls with `status`, and the `remedy`.",
	"upstream_refuses":    "Of its last `answers` to calls with a `feature`, an engine refused `refused`, and the others of its model did not, or there is no other one and it refused all: it may lack the feature, or the calls are wrong. `remedy` says how to start it. The line comes again after five minutes.",
	"breaker_open":        "An engine fails its calls and gets none for a while; `cause`. `PenstockBreakerOpen` says what to do.",
	"breaker_closed":      "An engine whose breaker was open serves its calls and gets new ones again.",
	"copies_lost":         "A hook with `after` has lost `copies` of calls since the last such line; `cause` (a result of penstock_hook_copies_total) and `why` are of the last one.",
	"certificate_invalid": "Clients refuse the certificate in a file; `setting`, `remedy`.",
	"key_created":         "A key was made at run time; `key`, and `who` did it.",
	"key_changed":         "A key was changed at run time; `key`, and `who` did it.",
	"key_rotated":         "A key got another secret at run time; `key`, and `who` did it.",
	"key_revoked":         "A key was revoked at run time; `key`, and `who` did it.",
}

// features explains what a call may need from an engine.
var features = map[string]string{
	"tools":       "The call has tools that the model may call. vLLM needs `--enable-auto-tool-choice --tool-call-parser NAME`.",
	"forced_tool": "The call has a tool that the model must call (`tool_choice`).",
	"json_schema": "The answer has to follow a JSON schema.",
	"images":      "The prompt has images.",
	"effort":      "The call sets a reasoning effort.",
}

// outcomes explains how calls end.
var outcomes = map[string]string{
	"ok":            "The call was answered.",
	"client_error":  "The request was invalid or not allowed; `code` says why.",
	"limited":       "A limit of its key, a full model or a memory budget refused the call; `code` says which.",
	"no_route":      "No engine of the model takes calls.",
	"upstream_fail": "An engine failed the call before the client got anything; `cause` and `failed_attempts` say why.",
	"stream_broken": "An engine failed the call after the client had got a part of the answer.",
	"timeout":       "The answer, or a part of it, did not come in time; `cause` names the setting.",
	"client_gone":   "The client disconnected before the end of its answer, or did not read it within `timeouts.write`.",
	"drained":       "The edge's own shutdown ended the call.",
	"internal":      "The edge failed; its log has the reason.",
}

// states explains the states on the status page and in penstock top.
var states = map[string]string{
	"up":                "An upstream takes calls.",
	"busy":              "An upstream has calls and does not answer its probes: it keeps its calls and gets no new ones until it does. Some engines are so during each call.",
	"incomplete":        "An upstream refuses a feature (tools, JSON schemas and so on) that others of its model answer, or does not serve a model that the configuration expects there. Its row says which, and with which flag the engine has to be started.",
	"suspect":           "A call could not reach an upstream, or a busy upstream has sent nothing for so long that it may have stopped. The next probes decide.",
	"failing":           "An upstream answers its probes and fails more than 2 % of what it is asked, or a model fails or refuses at least half of its calls. `PenstockUpstreamFails` and `PenstockErrors` say what to do.",
	"breaker open":      "An upstream has failed its calls and gets none for a while. `PenstockBreakerOpen` says what to do.",
	"breaker half-open": "The breaker of an upstream lets one call try whether it serves again.",
	"down":              "An upstream does not answer its probes or cannot be reached. `PenstockUpstreamDown` says what to do.",
	"stalled":           "An upstream has work and nothing moves. `PenstockUpstreamStalled` says what to do. Of a call that its client left: the client had stopped reading.",
	"pending":           "An upstream has not been probed yet: it gets calls only if no other one is up.",
	"draining":          "An operator took an upstream out (`penstock drain`): its calls end, no new ones come. `penstock ready NAME` lets calls in again. Of an edge: it shuts down.",
	"maintenance":       "An operator took an upstream out (`penstock maintenance`), and it is not probed. `penstock ready NAME` lets calls in again.",
	"retiring":          "The configuration does not have an upstream any more, or Kubernetes takes its pod away: its calls end.",
	"ready":             "No operator has taken the upstream out.",
	"served":            "A model is served, and its calls go well.",
	"degraded":          "A model is served, and a part of its calls fails, finds it full or waits. Of an edge: something is wrong, and most calls are answered.",
	"fallback":          "No engine serves a model, and its fallback answers its calls.",
	"out":               "No engine serves a model. `PenstockModelWithoutEngine` says what to do.",
	"over limit":        "A limit of a key refused calls in the last minute.",
	"expired":           "A key's end has passed, so its calls are refused.",
	"used up":           "A budget of a key is used up until it begins anew.",
	"ends soon":         "A key ends within a week.",
	"nearly used up":    "A budget of a key is nine tenths used.",
	"body":              "The edge reads a call's request.",
	"hook":              "An operator's hook decides about a call.",
	"queued":            "A call waits for a slot of an engine.",
	"waiting":           "An engine works on a call and has sent nothing yet.",
	"streaming":         "An engine answers a call.",
	"done":              "A call was answered.",
	"left":              "A call's client disconnected; the page says in which phase.",
	"failed":            "A call failed at an engine, or for lack of one.",
	"refused":           "A call was refused before an engine was asked.",
}

// stateSources lists the places in the sources that contain words for states, each with the pattern
// that matches such a word.
var stateSources = []struct{ file, from, pattern string }{
	{"proxy/operate/status/badge.go", "func (u *Upstream) Badge(", `Badge\{"([^"]+)"`},
	{"upstreams/health.go", "func (s State) String() string {", `"(\w+)"`},
	{"proxy/operate/status/status.go", "// The states of a model.", `Model\w+ += "(\w+)"`},
	{"proxy/operate/status/status.go", "// The values of Key.Badge.", `badge\w+ += "([^"]+)"`},
	{"proxy/operate/status/calls.go", "// The states of a call in addition", `Call\w+ += "(\w+)"`},
	{"proxy/telemetry/observe/record.go", "// The phases of a call.", `Phase += "(\w+)"`},
}

// wordTable returns a table of words. It fails the test if a word has no meaning, or if a meaning
// has no word.
func wordTable(t *testing.T, what string, words []string, meanings map[string]string) string {
	t.Helper()
	for name := range meanings {
		if !slices.Contains(words, name) {
			t.Errorf("there is no %s %q", what, name)
		}
	}
	slices.Sort(words)
	var b strings.Builder
	b.WriteString("\n" + row(what, "meaning") + "| --- | --- |\n")
	for _, name := range slices.Compact(words) {
		if meanings[name] == "" {
			t.Errorf("the %s %q has no meaning", what, name)
		}
		b.WriteString(row("`"+name+"`", meanings[name]))
	}
	return b.String()
}

// eventNames returns the names of events in the sources. A name is a literal, or is composed of a
// prefix and a state, a level or a kind of key change.
func eventNames(t *testing.T) (names []string) {
	t.Helper()
	made := map[string][2]string{ // the file that contains the second part, and the pattern of that part
		`"upstream_"+state.String()`: {"upstreams/health.go", `State(?:Pending|Up|Down|Stalled|Busy)\b`},
		`"edge_"+v.Level`:            {"proxy/operate/status/status.go", `Level(?:OK|Degraded|Failing|Out)\b`},
		"event":                      {"upstreams/breaker.go", `"(breaker_\w+)"`},
		"c.event":                    {"proxy/operate/admin/keys.go", `"(key_\w+)"`},
	}
	pattern := regexp.MustCompile(`zap\.String\("event", ([^)]+\(\)|[^)]+)\)`)
	for _, dir := range []string{"proxy", "upstreams", "routing", "config"} {
		for _, path := range sourceFiles(t, dir) {
			for _, m := range pattern.FindAllStringSubmatch(read(t, path), -1) {
				if name, err := strconv.Unquote(m[1]); err == nil {
					names = append(names, name)
					continue
				}
				from, ok := made[m[1]]
				if !ok {
					t.Errorf("%s makes the name of an event of %s: add its words to the table", path, m[1])
					continue
				}
				prefix, _, _ := strings.Cut(strings.Trim(m[1], `"`), `"`)
				for _, w := range regexp.MustCompile(from[1]).FindAllStringSubmatch(read(t, from[0]), -1) {
					if len(w) > 1 {
						names = append(names, w[1])
					} else {
						names = append(names, prefix+strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(w[0], "State"), "Level")))
					}
				}
			}
		}
	}
	return names
}

// sourceFiles returns the paths of a folder's Go files, except tests.
func sourceFiles(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(repoRoot, dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			path, err = filepath.Rel(repoRoot, path)
			files = append(files, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// fieldTable returns a table of the fields that the pattern matches in a source text. Each field
// must have a meaning.
func fieldTable(t *testing.T, what, text string, field *regexp.Regexp, meanings map[string]string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(row("field", "meaning") + "| --- | --- |\n")
	found := map[string]bool{}
	for _, m := range field.FindAllStringSubmatch(text, -1) {
		if meanings[m[1]] == "" {
			t.Errorf("the field %s of %s has no meaning", m[1], what)
		}
		if !found[m[1]] {
			found[m[1]] = true
			b.WriteString(row("`"+m[1]+"`", meanings[m[1]]))
		}
	}
	if len(found) != len(meanings) {
		t.Errorf("%d fields have a meaning, %s have %d", len(meanings), what, len(found))
	}
	return b.String()
}

// function returns the source of a function, from its name to its closing brace.
func function(t *testing.T, file, name string) string {
	t.Helper()
	_, text, ok := strings.Cut(read(t, file), name)
	if !ok {
		t.Fatalf("%s has no %s", file, name)
	}
	text, _, _ = strings.Cut(text, "\n}\n")
	return text
}

var logField = regexp.MustCompile(`zap\.\w+\("(\w+)"`)

func TestReferenceLog(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(fieldTable(t, "access lines", function(t, "proxy/telemetry/observe/log.go", "func (a accessLog) write("), logField, logFields))
	b.WriteString("\n## Failed attempts\n\nAn object of `failed_attempts` has these fields.\n\n" +
		fieldTable(t, "failed attempts", function(t, "proxy/telemetry/observe/log.go", "func (a FailedAttempt) MarshalLogObject("), attemptField, attemptFields))
	b.WriteString("\nA call that fails because of its engine has a line of level warn with `msg` \"upstream failed\" beside its access line, with `log.access: false` too.\n\n" +
		fieldTable(t, "lines about upstreams that failed", function(t, "proxy/request/call/record.go", "func logUpstreamFailure("), logField, failedLineFields))
	b.WriteString("\n## The edge's state\n\nWhen what the first sentence of the status page is about changes, a line says it: at most one in ten seconds, and none for other numbers. It needs the admin listener.\n\n" +
		fieldTable(t, "lines about the edge", function(t, "proxy/operate/admin/problem_logger.go", "func (a *problemLogger) logVerdict("), logField, edgeFields))
	b.WriteString("\nA limit of a key that refuses calls has a line of level warn, a second one after a minute, and then one every five minutes.\n\n" +
		fieldTable(t, "lines about keys", function(t, "proxy/operate/admin/problem_logger.go", "func (a *problemLogger) logExceededLimits("), logField, keyFields))
	b.WriteString("\n## Events\n\nLines that are made for a filter have the name of an `event`. `penstock explain NAME` explains it, and the words of the next four tables.\n" +
		wordTable(t, "event", eventNames(t), events))
	b.WriteString("\n## Outcomes\n" + wordTable(t, "outcome", findWords(t, "proxy/telemetry/observe/record.go", "// The closed set of outcomes.", `"(\w+)"`), outcomes))
	b.WriteString("\n## Causes\n\nThe log, a call's page, the events of the status page and the label `cause` of `penstock_upstream_failures_total` have the same words.\n\n" +
		row("cause", "meaning") + "| --- | --- |\n")
	for _, c := range upstreams.Causes() {
		b.WriteString(row("`"+string(c.Cause)+"`", c.Meaning))
	}
	b.WriteString("\n## States\n\nThe status page and `penstock top` show the state of an upstream, a model, a key or a call.\n")
	var words []string
	for _, s := range stateSources {
		words = append(words, findWords(t, s.file, s.from, s.pattern)...)
	}
	b.WriteString(wordTable(t, "state", append(words, "ready"), states))
	b.WriteString("\n## Features\n\nThe `feature` of a line about an upstream, and of `penstock_upstream_lacks`, is one of these, or the operation of the call (`chat`, `messages` and so on).\n" +
		wordTable(t, "feature", findWords(t, "upstreams/features.go", "names := [...]string{", `"(\w+)"`), features))
	b.WriteString("\n## Answers of hooks\n\n`hook_detail`, and `detail` in a line \"hook failed\", say what is wrong with a hook's answer. `penstock explain hook_answer` has them, too.\n\n" +
		row("detail", "meaning") + "| --- | --- |\n")
	for _, d := range hook.AllAnswerMistakes() {
		b.WriteString(row("`"+string(d.Mistake)+"`", d.Meaning))
	}
	b.WriteString("\n## Certificates\n\nLines about certificates that the edge obtains itself (`tls.acme`), as \"certificate obtained\" and \"certificate not obtained\", have these.\n\n" +
		fieldTable(t, "lines about certificates", read(t, "proxy/front/acme/manager.go"), logField, acmeFields))
	page(t, "proxy/operate/reference/log.md", "Log fields",
		"The log goes to standard error, one JSON object a line with `ts`, `level` and `msg`. Warnings of the configuration are lines of it, too.\n"+
			"Each call has one line with `msg` \"call\" and the fields below (`log.access: false` leaves them out). Its level is warn where the service failed the call (the outcomes upstream_fail, stream_broken, timeout, no_route and internal), whatever its status, and info otherwise. With `log.format: console` a line is short and for eyes, and the outcome of a call that did not go well stands first. No line has a prompt, an answer, a key or any other text of a client.", b.String())
}

// codeNames returns the error codes in the sources: constants that are named like codes, and
// literals where a code is expected. The codes of all dialects come first. codeNames does not find
// codes that exist only in a variable.
func codeNames(t *testing.T) (codes []string) {
	t.Helper()
	add := func(code string) {
		if code != "" && !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	files := []string{filepath.Join(repoRoot, "translate/apierr/error.go")}
	for _, dir := range []string{"proxy", "translate"} {
		err := filepath.WalkDir(filepath.Join(repoRoot, dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "e2e":
				return fs.SkipDir
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, code := range codesAt(n) {
				add(code)
			}
			return true
		})
	}
	return codes
}

var (
	codeConstant = regexp.MustCompile(`^[cC]ode[A-Z]`)
	codeInJSON   = regexp.MustCompile(`"code":"([a-z_]+)"`)
)

// codesAt returns the error codes in a single syntax node.
func codesAt(n ast.Node) (codes []string) {
	literal := func(x ast.Expr) {
		if l, ok := x.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if code, err := strconv.Unquote(l.Value); err == nil {
				codes = append(codes, code)
			}
		}
	}
	switch n := n.(type) {
	case *ast.ValueSpec: // const codeQueueFull = "websocket_queue_full" in package websocket
		if codeConstant.MatchString(n.Names[0].Name) && len(n.Values) == 1 {
			literal(n.Values[0])
		}
	case *ast.KeyValueExpr: // Error{Code: "no_answer"}
		if k, ok := n.Key.(*ast.Ident); ok && k.Name == "Code" {
			literal(n.Value)
		}
	case *ast.AssignStmt: // f.Label = "revoked"
		if to, ok := n.Lhs[0].(*ast.SelectorExpr); ok && (to.Sel.Name == "Code" || to.Sel.Name == "Label") {
			literal(n.Rhs[0])
		}
	case *ast.CallExpr: // apierr.New(503, "no_body_memory", …)
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) > 2 && (f.Sel.Name == "New" || f.Sel.Name == "Invalid") {
			if of, ok := f.X.(*ast.Ident); ok && of.Name == "apierr" {
				literal(n.Args[1])
			}
		}
	case *ast.BasicLit: // `{"error":{"code":"bad_request"}}`
		if n.Kind == token.STRING {
			if m := codeInJSON.FindStringSubmatch(n.Value); m != nil {
				codes = append(codes, m[1])
			}
		}
	}
	return codes
}

func TestReferenceErrors(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(row("code", "status", "cause", "remedy") + "| --- | --- | --- | --- |\n")
	codes := codeNames(t)
	for _, code := range codes {
		e, ok := errorCodes[code]
		if !ok {
			t.Errorf("the code %s is not explained", code)
		}
		b.WriteString(row("`"+code+"`", e.status, e.cause, e.remedy))
	}
	for code := range maps.Keys(errorCodes) {
		if !slices.Contains(codes, code) {
			t.Errorf("there is no code %s", code)
		}
	}
	page(t, "proxy/operate/reference/errors.md", "Error codes",
		"An error's body is `{\"error\": {\"message\", \"type\", \"code\", \"param\"}}`; on Messages it has that dialect's form. The message says what is wrong in this request. On\n"+
			"Messages 502, 503 and 504 are a 529. Clients repeat 429, 503 and 504 after `Retry-After`, and never a 400 unchanged. In a stream that has begun the same code\n"+
			"stands in the error event. An engine's own code of a 400 is passed on as it is.", b.String())
}

func TestReferenceCommands(t *testing.T) {
	t.Parallel()
	help, _, code := rig.RunProgram(t, "", "--help")
	if code != 0 {
		t.Fatalf("--help ends with %d", code)
	}
	var b strings.Builder
	section := func(name, text string) {
		fmt.Fprintf(&b, "## %s\n\n```text show\n%s\n```\n\n", name, strings.TrimSpace(text))
	}
	section("penstock", help)
	for _, name := range commandNames(help) {
		text, _, code := rig.RunProgram(t, "", append(strings.Fields(name), "--help")...)
		if code != 0 {
			t.Errorf("%s --help ends with %d", name, code)
		}
		section("penstock "+name, text)
		wantFormat(t, name, text)
	}
	for name := range commandsWithoutResults {
		if !strings.Contains(b.String(), "## penstock "+name+"\n") {
			t.Errorf("%s is listed as a command without results, and is no command", name)
		}
	}
	page(t, "proxy/operate/reference/commands.md", "Command line",
		"What `penstock COMMAND --help` prints. Without a command `penstock` is `penstock serve`. Flags with a variable (`$PENSTOCK_…`) can be set by it.", b.String())
}

// commandsWithoutResults lists the commands whose results are not meant for programs, with the
// reason.
var commandsWithoutResults = map[string]string{
	"init":         "writes a configuration",
	"serve":        "runs until it is ended; its log has log.format",
	"batch":        "writes the file of answers, in the form of OpenAI's Batch API",
	"bench report": "draws a page of a file that is JSON",
	"sim":          "runs until it is ended",
	"completion":   "prints a script",
	"support":      "writes a bundle",
}

var (
	formatFlag = regexp.MustCompile(`(?m)^ +--format=.*(?:\n {16,}\S.*)*`)
	jsonFlag   = regexp.MustCompile(`(?m)^ +(?:-\w, )?--json\b`)
)

// wantFormat checks that a command that prints results has --format json, that its help describes
// the JSON, and that no other flag selects JSON output.
func wantFormat(t *testing.T, name, help string) {
	t.Helper()
	if jsonFlag.MatchString(help) {
		t.Errorf("%s has --json: its output has --format", name)
	}
	format := strings.Join(strings.Fields(formatFlag.FindString(help)), " ")
	switch why := commandsWithoutResults[name]; {
	case why != "":
		if format != "" {
			t.Errorf("%s has --format, and is listed as a command that %s", name, why)
		}
	case !strings.Contains(format, ",json"):
		t.Errorf("%s has no --format json: %q", name, format)
	case name != "openapi" && !strings.Contains(format, "json is "): // a standard defines the formats of openapi
		t.Errorf("the help of %s --format does not say what its JSON holds: %q", name, format)
	}
}

var commandLine = regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)*)(?:  .*)?$`)

func commandNames(help string) (names []string) {
	_, list, _ := strings.Cut(help, "\nCommands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, m := range commandLine.FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	return names
}
