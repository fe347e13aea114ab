package e2e

import (
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// allowedImports lists, for each package, the packages of this module and of other modules that it
// may import. A trailing "/..." means a package and all packages below it. The standard library is
// allowed, except for the packages in never.
var allowedImports = map[string]struct {
	ours, modules string
	never         string
}{
	"config":                 {ours: "config/money config/strictyaml config/suggest config/unixsocket", never: "net/http log"},
	"config/instant":         {never: "net os log"},
	"config/unixsocket":      {never: "net os log time"},
	"config/money":           {never: "net os log time"},
	"config/filewatch":       {modules: "github.com/fsnotify/fsnotify", never: "net log"},
	"config/strictyaml":      {ours: "config/suggest", modules: "github.com/goccy/go-yaml/...", never: "net log"},
	"config/suggest":         {never: "net os log time"},
	"translate/jsonx":        {modules: "golang.org/x/sys/cpu", never: "net os log time"},
	"translate/sse":          {never: "net os log time"},
	"translate/apierr":       {ours: "translate/jsonx", never: "net os log"},
	"translate":              {ours: "translate/apierr translate/jsonx translate/sse", never: "net os log time"},
	"translate/chat":         {ours: "translate translate/apierr translate/jsonx translate/sse", modules: "golang.org/x/image/... golang.org/x/sys/cpu github.com/cespare/xxhash/v2", never: "net os log"},
	"upstreams":              {ours: "config config/instant upstreams/dns upstreams/engine upstreams/http1 upstreams/kubernetes upstreams/progress upstreams/residency upstreams/wake", modules: "go.uber.org/zap/... github.com/VictoriaMetrics/metrics", never: "net/http log"},
	"routing":                {ours: "config upstreams routing/turns", modules: "github.com/hashicorp/golang-lru/v2/... github.com/cespare/xxhash/v2", never: "net os log"},
	"routing/queue":          {ours: "routing routing/turns upstreams", never: "net os log"},
	"routing/turns":          {never: "net os log"},
	"proxy/access/auth":      {ours: "config translate/apierr upstreams/http1/httptoken proxy/access/auth/cert proxy/access/auth/jwt", modules: "github.com/hashicorp/golang-lru/v2/...", never: "net log"},
	"proxy/access/runkeys":   {ours: "config config/filewatch config/strictyaml proxy/telemetry/process", modules: "go.uber.org/zap/...", never: "net log"},
	"proxy/access/auth/cert": {never: "net log"},
	"proxy/access/auth/jwt":  {modules: "github.com/go-jose/go-jose/v4/...", never: "net log"},
	// Net/http: fetches keys.
	"proxy/access/auth/jwks":   {ours: "proxy/access/auth/jwt proxy/telemetry/guard", modules: "go.uber.org/zap/...", never: "log"},
	"proxy/front/httpserver":   {ours: "config translate/apierr upstreams/http1/httptoken proxy/request/body proxy/telemetry/guard proxy/front/listen", modules: "github.com/valyala/fasthttp github.com/fasthttp/router", never: "net/http log"},
	"proxy/fleet":              {ours: "config config/money proxy/fleet/sign proxy/access/limit proxy/telemetry/observe", modules: "github.com/VictoriaMetrics/metrics github.com/valkey-io/valkey-go go.uber.org/zap/...", never: "net/http log"},
	"proxy/fleet/board":        {ours: "proxy/fleet/sign upstreams", modules: "github.com/VictoriaMetrics/metrics github.com/cespare/xxhash/v2 github.com/valkey-io/valkey-go go.uber.org/zap/...", never: "net os log"},
	"proxy/fleet/sign":         {never: "net os log"},
	"proxy/fleet/places":       {ours: "routing", modules: "github.com/VictoriaMetrics/metrics github.com/cespare/xxhash/v2", never: "net os log"},
	"proxy/access/limit":       {ours: "config config/money upstreams", modules: "github.com/hashicorp/golang-lru/v2/...", never: "net log"},
	"proxy/telemetry/guard":    {modules: "go.uber.org/zap/...", never: "net os log"},
	"proxy/front/listen":       {ours: "config/instant config/unixsocket proxy/access/auth proxy/access/auth/cert upstreams/http1/chunked upstreams/http1/httptoken upstreams/http1/socket proxy/telemetry/guard", modules: "github.com/coreos/go-systemd/v22/activation github.com/coreos/go-systemd/v22/daemon github.com/pires/go-proxyproto golang.org/x/sys/...", never: "log"},
	"proxy/telemetry/ledger":   {ours: "proxy/telemetry/observe proxy/telemetry/process", modules: "github.com/VictoriaMetrics/metrics github.com/valyala/fasthttp go.uber.org/zap/...", never: "net/http log"},
	"proxy/telemetry/observe":  {ours: "config config/instant config/money proxy/telemetry/guard", modules: "github.com/VictoriaMetrics/metrics go.uber.org/zap/... go.opentelemetry.io/otel/... github.com/go-logr/logr", never: "net log"},
	"proxy/running/catalog":    {ours: "config routing translate/apierr translate/chat upstreams", modules: "github.com/hashicorp/golang-lru/v2/... github.com/cespare/xxhash/v2", never: "net log"},
	"proxy/front/browser":      {ours: "config config/unixsocket translate/apierr upstreams/http1/httptoken", modules: "github.com/valyala/fasthttp", never: "log"},
	"proxy/build":              {never: "net os log"},
	"proxy/front/plaintext":    {never: "net os log time"},
	"proxy/telemetry/process":  {modules: "golang.org/x/sys/windows", never: "net log"},
	"proxy/telemetry/quietlog": {never: "net"}, // changes package log
	"proxy/operate/reference":  {never: "net os log time"},
	"proxy/operate/openapi":    {never: "net os log time"},
	"proxy/tools/local":        {ours: "config config/strictyaml proxy proxy/access/auth proxy/tools/migrate proxy/front/plaintext upstreams/engine", never: "net log"},
	"proxy/tools/migrate":      {ours: "config proxy/access/auth proxy/front/plaintext", modules: "github.com/goccy/go-yaml/...", never: "net os log time"},
	"proxy/tools/command":      {ours: "config config/suggest proxy proxy/operate/admin proxy/tools/agent proxy/access/auth proxy/build proxy/fleet/keystore proxy/tools/local proxy/operate/openapi proxy/operate/reference proxy/front/plaintext proxy/request/hook proxy/running/reload proxy/operate/support proxy/operate/top upstreams upstreams/engine", modules: "github.com/alecthomas/kong", never: "net/http log"},
	"proxy/request/multipart":  {ours: "upstreams/http1/httptoken", never: "net os log mime"},
	"proxy/operate/canary":     {ours: "proxy/telemetry/observe", never: "net os log"},
	"proxy/operate/support":    {ours: "config config/unixsocket config/strictyaml proxy proxy/operate/admin proxy/build proxy/front/plaintext", never: "log"},
	"proxy/tools/agent":        {ours: "config config/suggest upstreams/http1 proxy/access/auth proxy/front/plaintext", never: "net log"},
	"proxy/tools/batch":        {ours: "proxy/telemetry/process", never: "log"},
	"proxy/operate/admin":      {ours: "config config/unixsocket config/suggest translate/apierr upstreams proxy/access/auth proxy/access/runkeys proxy/front/browser proxy/build proxy/request/endpoint proxy/request/failure proxy/fleet proxy/fleet/board proxy/telemetry/guard proxy/front/httpserver proxy/access/limit proxy/front/listen proxy/telemetry/observe proxy/front/plaintext proxy/telemetry/process proxy/running/reload proxy/running/snapshot proxy/operate/status proxy/operate/top routing proxy/operate/canary", modules: "github.com/valyala/fasthttp go.uber.org/zap/... github.com/VictoriaMetrics/metrics", never: "net/http log"},
	"proxy/running/reload":     {ours: "config config/filewatch routing routing/queue upstreams upstreams/engine proxy/access/auth proxy/access/auth/cert proxy/telemetry/guard proxy/access/limit proxy/front/listen proxy/front/plaintext proxy/telemetry/process proxy/running/snapshot", modules: "github.com/VictoriaMetrics/metrics go.uber.org/zap/...", never: "net log"},
	"proxy/request/body":       {ours: "upstreams/http1/httptoken translate/apierr translate/forward proxy/access/limit proxy/front/listen proxy/request/multipart", modules: "github.com/valyala/fasthttp github.com/klauspost/compress/...", never: "net/http log"},
	"proxy/request/endpoint":   {ours: "config upstreams upstreams/engine upstreams/http1 upstreams/http1/httptoken translate/... proxy/request/body proxy/access/limit proxy/running/snapshot", modules: "github.com/valyala/fasthttp", never: "net/http log"},
	"proxy/request/failure":    {ours: "routing upstreams upstreams/http1 translate/... proxy/request/body proxy/access/limit proxy/telemetry/observe proxy/request/retry proxy/running/snapshot", never: "net os log"},
	// Net/http: sends requests to hooks.
	"proxy/request/hook": {ours: "config config/unixsocket translate/jsonx upstreams proxy/telemetry/observe", modules: "github.com/VictoriaMetrics/metrics", never: "os log"},
	// Net/http: posts copies.
	"proxy/request/hook/copies": {ours: "config proxy/request/endpoint proxy/request/hook proxy/request/participant proxy/running/snapshot proxy/telemetry/guard proxy/telemetry/observe", modules: "github.com/VictoriaMetrics/metrics go.uber.org/zap/...", never: "log"},
	"proxy/request/retry":       {never: "net os log"},
	"proxy/request/poison":      {ours: "upstreams", never: "net os log"},
	// net: an upgraded connection.
	"proxy/request/attempt":     {ours: "config config/instant routing upstreams upstreams/http1 upstreams/progress translate/... proxy/request/endpoint proxy/request/failure proxy/telemetry/guard proxy/access/limit proxy/telemetry/observe proxy/running/snapshot", never: "net/http log"},
	"proxy/request/call":        {ours: "config config/instant routing routing/queue routing/turns upstreams upstreams/engine upstreams/http1 translate/... proxy/request/attempt proxy/access/auth proxy/request/body proxy/request/endpoint proxy/request/failure proxy/request/hook proxy/request/participant proxy/telemetry/guard proxy/access/limit proxy/front/listen proxy/telemetry/observe proxy/request/poison proxy/request/resume proxy/request/retry proxy/request/shadow proxy/running/snapshot proxy/operate/status", modules: "github.com/valyala/fasthttp go.uber.org/zap/... github.com/VictoriaMetrics/metrics", never: "net/http log"},
	"proxy/request/shadow":      {ours: "config routing upstreams translate/... proxy/request/attempt proxy/request/body proxy/request/endpoint proxy/request/failure proxy/request/participant proxy/telemetry/guard proxy/access/limit proxy/telemetry/observe proxy/running/snapshot", never: "net os log"},
	"proxy/request/participant": {ours: "config proxy/access/auth proxy/request/attempt proxy/request/body proxy/request/endpoint proxy/running/snapshot proxy/telemetry/observe upstreams", modules: "github.com/valyala/fasthttp", never: "net os log"},
	"proxy/request/resume":      {ours: "translate/... proxy/request/endpoint proxy/access/limit", never: "net os log time"},
	// Only hashes clients' text.
	"proxy/access/enduser":   {ours: "config translate/jsonx proxy/telemetry/observe", modules: "github.com/valyala/fasthttp", never: "net os log"},
	"proxy/running/snapshot": {ours: "config config/money config/suggest routing routing/queue upstreams upstreams/engine translate/apierr translate/chat translate/seal proxy/access/auth proxy/access/auth/jwks proxy/front/browser proxy/running/catalog proxy/access/enduser proxy/access/limit", modules: "github.com/valyala/fasthttp", never: "net os log"},
	// Calls without sockets.
	"proxy/request/internal/calltest": {ours: "...", modules: "..."},
	// Net/http: the library's request type.
	"proxy/request/websocket": {ours: "translate/apierr translate/chat translate/jsonx upstreams/http1/httptoken proxy/access/auth proxy/access/auth/cert proxy/request/body proxy/front/browser proxy/request/call proxy/request/endpoint proxy/telemetry/guard proxy/access/limit proxy/front/listen proxy/telemetry/observe", modules: "github.com/valyala/fasthttp github.com/coder/websocket", never: "log"},
	// Net/http: the library dials through it.
	"proxy/request/realtime": {ours: "config translate/apierr translate/engineerror translate/jsonx translate/realtime upstreams upstreams/http1 proxy/access/auth proxy/request/call proxy/request/endpoint proxy/request/failure proxy/request/websocket proxy/front/browser proxy/front/listen proxy/telemetry/guard", modules: "github.com/valyala/fasthttp github.com/coder/websocket", never: "log"},
	"translate/realtime":     {ours: "translate translate/apierr translate/engineerror translate/jsonx", never: "net os log time"},
	"proxy/operate/status":   {ours: "config routing upstreams proxy/fleet proxy/telemetry/observe proxy/front/plaintext config/money", never: "net log"},
	"proxy/operate/top":      {ours: "proxy/front/plaintext proxy/operate/status", modules: "golang.org/x/term golang.org/x/sys/windows", never: "net log"},
	"translate/seal":         {never: "net os log time"},
	"translate/dialects":     {ours: "translate translate/seal translate/chat translate/chat/answer translate/apierr translate/jsonx translate/sse", never: "net os log time"},
	"translate/messages":     {ours: "translate translate/seal translate/chat/answer translate/engineerror translate/dialects translate/chat translate/apierr translate/jsonx translate/sse", never: "net os log"},
	"translate/responses":    {ours: "translate translate/seal translate/chat/toolcall translate/chat/answer translate/engineerror translate/dialects translate/chat translate/apierr translate/jsonx translate/sse", never: "net os log"},
	"translate/forward":      {ours: "translate translate/chat/answer translate/engineerror translate/chat translate/apierr translate/jsonx translate/sse", never: "net os log"},
	"translate/audio":        {ours: "translate/forward translate/chat translate/apierr translate/jsonx", never: "net os log"},
	"proxy":                  {ours: "config config/unixsocket routing routing/queue upstreams upstreams/engine upstreams/http1 upstreams/http1/httptoken translate/... proxy/...", modules: "github.com/valyala/fasthttp github.com/fasthttp/router go.uber.org/zap/... github.com/VictoriaMetrics/metrics golang.org/x/term", never: "net/http log"},
	"bench":                  {ours: "bench/compare bench/exit bench/load bench/overhead bench/plan bench/report bench/result bench/scenario proxy/front/plaintext", never: "net log"},
	"bench/sim":              {ours: "bench/sim/...", modules: "github.com/valyala/fastjson", never: "log"},
	"bench/sim/audio":        {ours: "bench/sim/textgen bench/sim/wire", never: "net os log"},
	"bench/sim/fault":        {ours: "bench/sim/profile bench/sim/textgen bench/sim/wire", never: "net os log"},
	"bench/sim/generate":     {ours: "bench/sim/fault bench/sim/profile bench/sim/scheduler bench/sim/textgen", modules: "github.com/valyala/fastjson", never: "net os log"},
	"bench/sim/pages":        {ours: "bench/sim/profile bench/sim/wire", never: "net os log"},
	"bench/sim/profile":      {ours: "bench/sim/textgen bench/sim/wire", never: "net os log"},
	"bench/sim/scheduler":    {ours: "bench/sim/textgen", never: "net os log"},
	"bench/sim/textgen":      {ours: "bench/sim/wire", modules: "github.com/valyala/fastjson", never: "net os log time"},
	"bench/sim/wire":         {never: "net os log time"},
	"proxy/e2e":              {ours: "...", modules: "..."},
	// The fault matrix, against the built program.
	"proxy/e2e/faults": {ours: "...", modules: "..."},
	// Shared by the tests in the parent folder.
	"proxy/e2e/rig": {ours: "...", modules: "..."},
	"":              {ours: "config proxy/tools/agent proxy/tools/batch proxy/tools/command proxy/telemetry/quietlog bench bench/sim", modules: "github.com/alecthomas/kong", never: "net/http log"},

	// Net/http: certmagic's challenge handler.
	"proxy/front/acme":      {ours: "config translate/apierr proxy/telemetry/guard proxy/front/httpserver proxy/front/listen proxy/front/plaintext", modules: "github.com/caddyserver/certmagic github.com/mholt/acmez/v3/acme github.com/valyala/fasthttp go.uber.org/zap/...", never: "log"},
	"proxy/fleet/certstore": {ours: "proxy/front/acme proxy/telemetry/guard translate/seal", modules: "github.com/caddyserver/certmagic github.com/VictoriaMetrics/metrics github.com/valkey-io/valkey-go go.uber.org/zap/...", never: "log"},
	"proxy/fleet/keystore":  {ours: "config", modules: "github.com/VictoriaMetrics/metrics github.com/valkey-io/valkey-go go.uber.org/zap/...", never: "net/http log"},

	"bench/exit":    {never: "net os log time"},
	"bench/result":  {ours: "bench/exit", modules: "github.com/HdrHistogram/hdrhistogram-go", never: "net log"},
	"bench/report":  {ours: "bench/result proxy/front/plaintext", never: "net os log"},
	"bench/compare": {ours: "bench/exit bench/result proxy/front/plaintext", never: "net os log"},
	// x/sys: pins processes to processors.
	"bench/process":          {modules: "golang.org/x/sys/...", never: "net log"},
	"bench/load/client":      {ours: "bench/exit bench/result upstreams/http1/chunked translate/jsonx translate/sse", modules: "github.com/valyala/fasthttp", never: "net/http log"},
	"bench/load/workload":    {ours: "bench/exit bench/load/client", never: "net log"},
	"bench/load":             {ours: "bench/exit bench/load/client bench/load/workload bench/process bench/result proxy/build", modules: "github.com/HdrHistogram/hdrhistogram-go", never: "net/http log"},
	"bench/scenario":         {ours: "bench/exit bench/load/client bench/process", modules: "github.com/goccy/go-yaml/...", never: "net log"},
	"bench/plan":             {ours: "config routing upstreams bench/exit bench/load bench/load/workload bench/result bench/sim bench/sim/scheduler", modules: "github.com/VictoriaMetrics/metrics", never: "net log"},
	"bench/overhead":         {ours: "bench/exit bench/load bench/load/client bench/overhead/rawload bench/process bench/result", never: "net/http log"},
	"bench/overhead/rawload": {modules: "golang.org/x/sys/...", never: "net/http log"},
	"bench/benchtest":        {ours: "...", modules: "..."}, // shared by the load tester's tests

	"upstreams/engine":     {ours: "config config/unixsocket upstreams/http1", never: "net/http log"},
	"upstreams/dns":        {never: "net/http os log"},
	"upstreams/kubernetes": {ours: "config upstreams/http1", modules: "go.uber.org/zap/...", never: "net/http log"},
	"upstreams/progress":   {never: "net os log"},
	"upstreams/residency":  {never: "net os log"},
	"upstreams/wake":       {ours: "config", never: "net os log"},
	"upstreams/http1":      {ours: "config/unixsocket upstreams/http1/chunked upstreams/http1/httptoken upstreams/http1/socket", never: "net/http log"},
	// Also for proxy/front/listen.
	"upstreams/http1/chunked":   {ours: "upstreams/http1/httptoken", never: "net os log time"},
	"upstreams/http1/httptoken": {never: "net os log time"},
	// Also for proxy/front/listen.
	"upstreams/http1/socket":  {modules: "golang.org/x/sys/unix", never: "net/http log time"},
	"translate/engineerror":   {ours: "translate translate/jsonx", never: "net os log time"},
	"translate/chat/answer":   {ours: "translate translate/engineerror translate/chat/toolcall translate/apierr translate/jsonx translate/sse", never: "net os log time"},
	"translate/chat/toolcall": {ours: "translate/jsonx", never: "net os log time"},

	"proxy/e2e/documents":   {ours: "...", modules: "..."}, // runs what the documents contain
	"proxy/e2e/statuspage":  {ours: "...", modules: "..."}, // the admin page in a browser
	"config/testkit/acmeca": {modules: "github.com/go-jose/go-jose/v4"},
	"proxy/e2e/acme":        {ours: "...", modules: "..."}, // certificates that the edge obtains by ACME
	// The dashboard and the alerts in a running Prometheus.
	"proxy/e2e/prometheus": {ours: "...", modules: "..."},
	"proxy/e2e/tiers":      {ours: "...", modules: "..."}, // overflow, and external engines
	"proxy/e2e/websocket":  {ours: "...", modules: "..."}, // calls over WebSocket
	"proxy/e2e/realtime":   {ours: "...", modules: "..."}, // realtime sessions

	// The test kits are for tests in any package. They import no package of this module, so that
	// even the lowest-level packages can use them.
	"config/testkit/browser":    {modules: "github.com/chromedp/..."},
	"config/testkit/golden":     {modules: "github.com/google/go-cmp/cmp golang.org/x/tools/txtar"},
	"config/testkit/fastset":    {},
	"config/testkit/guardpage":  {},
	"config/testkit/kubeapi":    {},
	"config/testkit/pages":      {modules: "golang.org/x/tools/txtar"},
	"config/testkit/raced":      {},
	"config/testkit/rawserver":  {modules: "golang.org/x/sys/unix"},
	"config/testkit/selfsigned": {},
	"config/testkit/tty":        {modules: "golang.org/x/sys/unix"},
}

const module = "penstock"

// TestImports checks that the imports of every package follow the table.
func TestImports(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := map[string]bool{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		rule, ok := allowedImports[name]
		if !ok {
			t.Errorf("package %s has no rule in this table: add one, or move the code to where it belongs", p.ImportPath)
			continue
		}
		seen[name] = true
		for _, imp := range p.Imports {
			switch {
			case isTestPackage(strings.TrimPrefix(imp, module+"/")) && !isTestPackage(name):
				t.Errorf("%s must not import %s: that is for tests", p.ImportPath, imp)
			case imp == module || strings.HasPrefix(imp, module+"/"):
				if !matchesImport(rule.ours, strings.TrimPrefix(imp, module+"/")) {
					t.Errorf("%s must not import %s", p.ImportPath, imp)
				}
			case strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
				if !matchesImport(rule.modules, imp) {
					t.Errorf("%s must not import %s", p.ImportPath, imp)
				}
			case matchesImport(rule.never, imp):
				t.Errorf("%s must not import %s", p.ImportPath, imp)
			}
		}
	}
	for name := range allowedImports {
		if !seen[name] {
			t.Errorf("the table names package %q, which does not exist", name)
		}
	}
}

func isTestPackage(name string) bool {
	return matchesImport("proxy/e2e/... config/testkit/... proxy/request/internal/calltest", name)
}

func matchesImport(list, imp string) bool {
	for _, entry := range strings.Fields(list) {
		prefix, tree := strings.CutSuffix(entry, "...")
		if imp == entry || tree && (imp == strings.TrimSuffix(prefix, "/") || strings.HasPrefix(imp, prefix)) {
			return true
		}
	}
	return false
}
