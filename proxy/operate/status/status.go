package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/config"
	"penstock/proxy/fleet"
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/upstreams"
)

// Status is the state of the edge at one moment. Times are absolute, durations have their unit in
// the field name, and unknown values are null or -1, never zero.
type Status struct {
	Verdict  Verdict   `json:"verdict"`
	Build    string    `json:"build"`
	Version  uint64    `json:"version"` // version of the running configuration
	Since    time.Time `json:"version_since"`
	Started  time.Time `json:"started"`
	Process  string    `json:"process"` // process id and start in Unix seconds: 4711-1764315673
	Now      time.Time `json:"now"`
	Draining bool      `json:"draining"`
	EdgeFaults
	InFlight    int64        `json:"in_flight"`
	Finished    uint64       `json:"finished"`
	Connections int64        `json:"connections"`
	Certificate *Certificate `json:"certificate"` // the public listener's certificate; null without TLS

	AdminCertificate *Certificate `json:"admin_certificate,omitempty"`

	Generations []ConfigGeneration `json:"generations"`
	LastReload  *Reload            `json:"last_reload"`
	Retries     Retries            `json:"retries"`
	Upstreams   []Upstream         `json:"upstreams"`
	Models      []Model            `json:"models"`
	Hour        Hour               `json:"hour"`
	Events      []Event            `json:"events"` // the newest event is first
	Keys        []Key              `json:"keys"`
	Calls       []Call             `json:"calls"`
	// Refusals counts, by reason, the calls that were refused before a request was sent to an
	// engine.
	Refusals []Reason `json:"refusals"`
	Failures []Reason `json:"failures"`
	// Attempts counts failed attempts by reason, including failures hidden by a successful retry.
	Attempts []Reason        `json:"failed_attempts"`
	Total    observe.History `json:"total"`
	Fleet    *fleet.State    `json:"fleet,omitempty"`

	// Which rows of each incomplete list are shown, keyed by the list's name.
	Excerpts map[string]*ListExcerpt `json:"excerpts,omitempty"`

	Discoveries []Discovery `json:"discoveries,omitempty"`

	Discovered []DiscoveredModels `json:"discovered_models,omitempty"`

	Issuers []Issuer `json:"issuers,omitempty"`

	// Hooks lists the hooks that returned no decision for some calls in the last minute.
	Hooks []Hook `json:"hooks,omitempty"`

	Copies []Copies `json:"copies,omitempty"`

	Operable bool `json:"operable"` // whether upstreams can be drained, which requires an admin token
}

// Verdict describes the state of the edge in one sentence.
type Verdict struct {
	Level string `json:"level"` // ok, degraded, failing, out, draining
	Text  string `json:"text"`
	// About names the models and upstreams that have a problem. As long as About does not change,
	// no new problem has occurred.
	About []string `json:"about,omitempty"`
}

// The levels of a verdict.
const (
	LevelOK       = "ok"
	LevelDegraded = "degraded"
	LevelFailing  = "failing" // most calls to a model fail or are refused, or no client can connect
	LevelOut      = "out"
	LevelDraining = "draining"
)

// EdgeFaults are problems in the edge itself.
type EdgeFaults struct {
	// Where panics recur; if set, the edge is not ready.
	Panicking string  `json:"panicking,omitempty"`
	Unsaved   float64 `json:"unsaved_usage_seconds,omitempty"` // how long usage has been waiting for the ledger

	// Whether connections were rejected in the last minute.
	RejectsConnections bool `json:"connections_turned_away,omitempty"`
	// Number of other processes that listen on the admin port.
	OnAdminPort int `json:"others_on_admin_port,omitempty"`
	// Whether the admin port has been shared for longer than a handover between processes takes.
	AdminPortShared bool `json:"-"`
}

// maxUnsavedSeconds is how many seconds usage may wait for the ledger before the delay counts as a
// problem.
const maxUnsavedSeconds = 5

// Certificate describes the validity of one of the edge's certificates.
type Certificate struct {
	NotBefore time.Time `json:"not_before,omitzero"`
	NotAfter  time.Time `json:"not_after,omitzero"`

	Domains []Domain `json:"domains,omitempty"` // domains whose certificates the edge obtains from a CA
}

// CertificateOf returns a certificate that is valid between two times, or nil if the times are
// zero.
func CertificateOf(from, to time.Time) *Certificate {
	if to.IsZero() {
		return nil
	}
	return &Certificate{NotBefore: from, NotAfter: to}
}

// Trouble returns why clients reject the certificate at the given time, or "".
func (c *Certificate) Trouble(now time.Time) string {
	switch {
	case c == nil:
		return ""
	case len(c.Domains) > 0:
		var all []string
		for _, d := range c.Domains {
			if t := d.rejectionText(now); t != "" {
				all = append(all, t)
			}
		}
		return strings.Join(all, ", ")
	case now.After(c.NotAfter):
		return "the certificate expired on " + c.NotAfter.UTC().Format(time.RFC3339)
	case now.Before(c.NotBefore):
		return "the certificate is not valid before " + c.NotBefore.UTC().Format(time.RFC3339)
	}
	return ""
}

// Discovery is a source of upstreams that are not in the file: DNS or Kubernetes.
type Discovery struct{ upstreams.DiscoveryStatus }

// Text describes the discovery in one line.
func (d Discovery) Text() string {
	if t := d.Problem(); t != "" {
		return t
	}
	known := "nothing known yet"
	if d.Age >= 0 {
		known = "known for " + FormatDuration(secondsDuration(d.Age))
	}
	return d.Source + ": " + pluralize(d.Targets, "endpoint") + ", " + known
}

// discoveryStaleSeconds is how many seconds a discovery may fail before the edge reports it.
const discoveryStaleSeconds = 10

// Problem says why the endpoints may be out of date, or returns "".
func (d Discovery) Problem() string {
	if d.Stale < discoveryStaleSeconds {
		return ""
	}
	return d.Source + ": " + pluralize(d.Targets, "endpoint") + " as of " + FormatDuration(secondsDuration(d.Stale)) + " ago: " + d.Trouble
}

// DiscoveredModels counts the models discovered at one upstream.
type DiscoveredModels struct {
	Upstream string `json:"upstream"`
	Models   int    `json:"models"`
	// LeftOut counts models that are not offered, for example because the configuration file lists
	// them.
	LeftOut int `json:"left_out"`
}

// Text describes the models in one line.
func (d DiscoveredModels) Text() string {
	text := d.Upstream + ": " + pluralize(d.Models, "model") + " discovered"
	if d.LeftOut > 0 {
		text += ", " + strconv.Itoa(d.LeftOut) + " left out"
	}
	return text
}

// Issuer is an identity provider whose tokens the edge accepts.
type Issuer struct {
	Name     string  `json:"name"`
	Keys     int     `json:"keys"`
	Age      float64 `json:"fetched_seconds_ago"` // -1 if the keys were never fetched or are in a file
	Failures uint64  `json:"failures"`            // failed fetches since the edge started
	Trouble  string  `json:"trouble,omitempty"`
}

// Text describes the issuer in one line.
func (i Issuer) Text() string {
	if t := i.Problem(); t != "" {
		return t
	}
	if i.Age < 0 {
		return "issuer " + i.Name + ": " + pluralize(i.Keys, "key") + " of a file"
	}
	return "issuer " + i.Name + ": " + pluralize(i.Keys, "key") + ", fetched " + FormatDuration(secondsDuration(i.Age)) + " ago"
}

// Problem says why some of the issuer's keys may be missing, or returns "".
func (i Issuer) Problem() string {
	switch {
	case i.Trouble == "":
		return ""
	case i.Keys == 0:
		return "issuer " + i.Name + ": its tokens are refused, for its keys have not been fetched yet: " + i.Trouble
	}
	return "issuer " + i.Name + ": " + pluralize(i.Keys, "key") + " as of " + FormatDuration(secondsDuration(i.Age)) + " ago: " + i.Trouble
}

// Hook is an operator's hook that returned no decision for some calls in the last minute.
type Hook struct {
	Name      string `json:"name"`
	Calls     int    `json:"calls"`
	Undecided int    `json:"undecided"`
	Cause     string `json:"cause"` // cause of the last missing decision, one of upstreams.Causes
	Detail    string `json:"detail,omitempty"`
	Words     string `json:"-"`    // a description of Detail
	Open      bool   `json:"open"` // whether on_error is open
}

// Text describes the hook in one line.
func (h Hook) Text() string {
	then := "so they were refused"
	if h.Open {
		then = "so they passed unchecked"
	}
	cause := upstreams.Cause(h.Cause).ShortMeaning()
	if h.Words != "" {
		cause += ": " + h.Words
	}
	return fmt.Sprintf("the hook %s gave no decision on %d of %s in the last minute (%s), %s: see its log, or penstock explain hook_unavailable",
		h.Name, h.Undecided, pluralize(h.Calls, "call"), cause, then)
}

// Problem returns Text if the hook fails for too many calls, and otherwise "".
func (h Hook) Problem() string {
	if Thresholds.Failed.shareExceeds(h.Undecided, h.Calls) {
		return h.Text()
	}
	return ""
}

// Copies describes the copies of calls sent to a hook in the last minute, if some of the copies
// were lost.
type Copies struct {
	Hook  string `json:"hook"`
	Calls int    `json:"calls"`
	Lost  int    `json:"lost"`
	Why   string `json:"why"`
}

// Text describes the copies in one line.
func (c Copies) Text() string {
	return fmt.Sprintf("the hook %s lost the copies of %d of %s in the last minute (%s): see the sink's own log", c.Hook, c.Lost,
		pluralize(c.Calls, "call"), c.Why)
}

// Problem returns Text if too many copies were lost, and otherwise "".
func (c Copies) Problem() string {
	if Thresholds.Failed.shareExceeds(c.Lost, c.Calls) {
		return c.Text()
	}
	return ""
}

// ConfigGeneration is the running configuration, or an older configuration that still has calls.
type ConfigGeneration struct {
	Version uint64    `json:"version"`
	Since   time.Time `json:"since"`
	Calls   int64     `json:"calls"`
}

// Reload is the result of the last reload.
type Reload struct {
	At        time.Time `json:"at"`
	Source    string    `json:"source"`
	OK        bool      `json:"ok"`
	Unchanged bool      `json:"unchanged,omitempty"` // the file is identical to the running configuration
	// KeysInForce is true if the file was rejected but its keys are in use.
	KeysInForce bool     `json:"keys_in_force,omitempty"`
	Version     uint64   `json:"version"`
	Changes     []string `json:"changes,omitempty"`
	// Capacity lists changes in the models' capacity, such as "llama: 48 -> 16 slots".
	Capacity []string `json:"capacity,omitempty"`
	Restart  []string `json:"needs_restart,omitempty"`
	Problems []string `json:"problems,omitempty"`
	Seconds  float64  `json:"seconds"`
}

// Retries is the usage of the retry budget in the last ten seconds.
type Retries struct {
	Used    int64 `json:"used"`
	Allowed int64 `json:"allowed"`
}

// Upstream is one upstream with its recent history.
type Upstream struct {
	upstreams.Status
	ModeWho string `json:"mode_who,omitempty"` // the operator who set the mode, in a fleet
	// SoleFor lists models for which no other upstream currently accepts calls.
	SoleFor []string        `json:"sole_for,omitempty"`
	History observe.History `json:"history"`
	Hour    Hour            `json:"hour"`

	// BreakerIdle is true if the breaker is half-open only because there have been no calls, and
	// the last failure is more than five minutes old. The next call will test the engine.
	BreakerIdle bool `json:"breaker_idle,omitempty"`

	// FailingSeconds is how long too many attempts at the upstream have been failing.
	// RefusingSeconds is how long the upstream has been refusing a feature.
	FailingSeconds  float64 `json:"failing_seconds,omitempty"`
	RefusingSeconds float64 `json:"refusing_seconds,omitempty"`
}

// The states of a model.
const (
	ModelServed   = "served"
	ModelDegraded = "degraded" // served, but too many calls fail, find no slot or wait
	ModelFailing  = "failing"  // served, but most of its calls fail or find no slot
	ModelFallback = "fallback" // no engine serves it, and another model answers its calls
	ModelOut      = "out"
)

// Model is one route.
type Model struct {
	ID    string `json:"id"`
	Ready bool   `json:"ready"`
	// An engine lists the model, but the configuration file does not.
	Found    bool     `json:"discovered,omitempty"`
	State    string   `json:"state"` // served, degraded, failing, fallback, out
	Fallback []string `json:"fallback,omitempty"`
	// The fallbacks that answer while no engine serves the model.
	Fallbacks      []string        `json:"stand_ins,omitempty"`
	Deprecated     time.Time       `json:"deprecated,omitzero"`
	Sunset         time.Time       `json:"sunset,omitzero"`
	Troubles       []string        `json:"troubles,omitempty"`
	TroubleSeconds float64         `json:"trouble_seconds,omitempty"` // how long the problem has lasted
	History        observe.History `json:"history"`
	Hour           Hour            `json:"hour"`
	Separate       bool            `json:"separate_pools"`
	Pools          map[string]Pool `json:"pools"`
	Slots          Slots           `json:"slots"`
	Queue          *Queue          `json:"queue"`
	Targets        []Target        `json:"targets"`
	// Tiers is set if there is more than one tier. In this case, Pools and Slots describe the first
	// tier.
	Tiers  []Tier  `json:"tiers,omitempty"`
	Arms   []Arm   `json:"arms,omitempty"`
	Shadow *Shadow `json:"shadow,omitempty"`
}

// Retirement says when the model is deprecated or removed, or returns "".
func (m *Model) Retirement() string {
	var parts []string
	if !m.Deprecated.IsZero() {
		parts = append(parts, "deprecated as of "+m.Deprecated.UTC().Format(time.DateOnly))
	}
	if !m.Sunset.IsZero() {
		parts = append(parts, "meant to be served until "+m.Sunset.UTC().Format(time.DateOnly))
	}
	return strings.Join(parts, ", ")
}

// Tier is one tier of a model's targets.
type Tier struct {
	Tier int `json:"tier"`
	// When says whether the tier serves calls while earlier tiers are full, or while earlier tiers
	// are down.
	When     string          `json:"when,omitempty"`
	Serving  bool            `json:"serving"` // true for the first tier that accepts calls
	Separate bool            `json:"separate_pools"`
	Pools    map[string]Pool `json:"pools"`
	Slots    Slots           `json:"slots"`
}

// Arm is a group of a model's targets that receives a share of the model's calls.
type Arm struct {
	routing.Arm
	Calls  int64 `json:"calls"`
	Missed int64 `json:"missed"` // calls that were assigned to the arm but ended at other upstreams
}

// Shadow describes the copies of a model's calls.
type Shadow struct {
	To     string           `json:"to"`
	Share  float64          `json:"share"` // 0 to 1
	Copies map[string]int64 `json:"copies"`
}

// ShadowOf describes the copies of a model's calls.
func ShadowOf(model, to string, share float64, calls *observe.Calls) *Shadow {
	out := &Shadow{To: to, Share: share, Copies: map[string]int64{}}
	for end, n := range observe.ShadowCounts(calls, model, to).Ended {
		out.Copies[observe.ShadowOutcome(end).String()] = n
	}
	return out
}

// Slots is the sum over all pools at the targets that may accept calls. A slot that several pools
// share counts in each Pool, but only once here.
type Slots struct {
	Active int `json:"active"`
	Total  int `json:"total"`
}

// Pool is the total capacity of one pool at the targets that may accept calls.
type Pool struct {
	Active    int      `json:"active"`
	Total     int      `json:"total"`
	Available int      `json:"available"`
	Elsewhere int      `json:"elsewhere,omitempty"` // how many of Active are used by the fleet's other edges
	Others    int      `json:"others"`              // requests from other clients at these engines
	Sources   []string `json:"sources"`
}

// Queue is a model's queue.
type Queue struct {
	Waiting int     `json:"waiting"`
	Depth   int     `json:"depth"`
	Wait    float64 `json:"wait_seconds"`
}

// Key is a key or a group of keys, with its usage.
type Key struct {
	ID string `json:"id"`
	// True for a group, whose numbers are the sums over its keys.
	IsGroup     bool      `json:"is_group,omitempty"`
	Group       string    `json:"group,omitempty"`
	InFlight    int       `json:"in_flight"`
	Concurrency int       `json:"concurrency,omitempty"`
	Requests    *LimitUse `json:"requests_per_minute,omitempty"` // null if there is no limit
	Tokens      *LimitUse `json:"tokens_per_minute,omitempty"`   // null if there is no limit
	Budgets     []Budget  `json:"budgets,omitempty"`
	Today       KeyDay    `json:"today"`
	// Refused counts calls that were refused before they reached an engine.
	Refused int `json:"refused_5m"`
	// OverLimit counts the refused calls that exceeded a limit of the key.
	OverLimit int `json:"over_limit_5m"`
	// Full counts the refused calls that found no slot.
	Full int `json:"full_5m"`
	// Why is the most frequent reason for refusals.
	Why string `json:"refused_by,omitempty"`

	// Ends is when the key expires, or zero if it does not expire.
	Ends time.Time `json:"ends,omitzero"`

	// Notes are warnings for the key's owner, worst first.
	Notes []string `json:"notes,omitempty"`
	// Badge is a word from a closed set for the worst note.
	Badge string `json:"badge,omitempty"`

	exceededLimits []exceededLimit
}

type exceededLimit struct {
	limit string // starts with group_ if the limit belongs to the key's group
	calls int
	last  time.Time
}

func (k *Key) limitValueText(limit string) string {
	if b := k.budget(limit); b != nil {
		return b.Limit
	}
	of := func(u *LimitUse) string {
		if u == nil {
			return ""
		}
		return strconv.FormatInt(u.Limit, 10)
	}
	switch strings.TrimPrefix(limit, groupLimitPrefix) {
	case "requests_per_minute":
		return of(k.Requests)
	case "tokens_per_minute":
		return of(k.Tokens)
	case "concurrency":
		return strconv.Itoa(k.Concurrency)
	}
	return ""
}

const nearBudgetShare = 0.9

// setNotesAndBadge sets the key's notes and its badge. urgent is the number of leading notes that
// are urgent, because calls are refused or the key has just expired. shown is the number of leading
// notes that the headline may show.
func (k *Key) setNotesAndBadge(now time.Time) (urgent, shown int) {
	var soon, old []string
	k.Notes, k.Badge = nil, k.badgeText(now)
	for _, o := range k.exceededLimits {
		name, b := strings.TrimPrefix(o.limit, groupLimitPrefix), k.budget(o.limit)
		text := noteOverLimit + strings.ReplaceAll(name, "_", " ")
		if b != nil {
			text += " (" + b.Used + " of " + b.Limit + ")"
		}
		text += ", " + refusedCallsText(o.calls) + " in the last minute"
		if b != nil {
			text += ", until " + b.renewalTime()
		}
		k.Notes = append(k.Notes, text+k.limitRemedy(name))
	}
	for i := range k.Budgets {
		b := &k.Budgets[i]
		text := "has used " + b.Used + " of " + b.Limit + " of its " + b.Name + ", until " + b.renewalTime()
		switch {
		// An earlier note already mentions the budget.
		case slices.ContainsFunc(k.exceededLimits, func(o exceededLimit) bool { return k.budget(o.limit) == b }):
		case b.Share >= 1:
			k.Notes = append(k.Notes, text+k.limitRemedy(b.Name))
		case b.Share >= nearBudgetShare:
			soon = append(soon, text)
		}
	}
	if left := k.Ends.Sub(now); !k.Ends.IsZero() {
		when := " (" + k.Ends.UTC().Format(time.RFC3339) + ")"
		week := config.ExpiryNotice(time.Time{}, k.Ends)
		switch {
		case left <= -week:
			old = append(old, "expired "+FormatDuration(-left)+" ago"+when)
		case left <= 0:
			k.Notes = append(k.Notes, "expired "+FormatDuration(-left)+" ago"+when)
		case left < week:
			soon = append(soon, noteEndsIn+FormatDuration(left)+when)
		}
	}
	urgent = len(k.Notes)
	k.Notes = append(k.Notes, soon...)
	shown = len(k.Notes)
	k.Notes = append(k.Notes, old...)
	return urgent, shown
}

// limitRemedy returns the end of a sentence that says how to fix a limit that refuses calls.
func (k *Key) limitRemedy(limit string) string {
	where := "keys[].limits."
	if k.IsGroup {
		where = "groups[].limits."
	}
	return ": raise " + where + limit + ", or wait"
}

// LimitDescription describes, for the log, a limit that refuses a key's calls.
type LimitDescription struct {
	Used, Limit string    // empty if the limit is not a budget
	Until       time.Time // for a budget, when its next period starts
	Remedy      string
	Over        bool // false if the limit has not refused any call since it was changed
}

// DescribeLimit describes a limit of a key. A limit with the prefix group_ belongs to the key's
// group.
func (s *Status) DescribeLimit(key, limit string) LimitDescription {
	name, ofGroup := strings.CutPrefix(limit, groupLimitPrefix)
	i := slices.IndexFunc(s.Keys, func(k Key) bool { return k.ID == key && !k.IsGroup })
	if i >= 0 && ofGroup {
		group := s.Keys[i].Group
		i = slices.IndexFunc(s.Keys, func(k Key) bool { return k.ID == group && k.IsGroup })
	}
	k := &Key{IsGroup: ofGroup}
	if i >= 0 {
		k = &s.Keys[i]
	}
	o := LimitDescription{Over: true, Remedy: strings.TrimPrefix(k.limitRemedy(name), ": ") + " (penstock explain " + name + ")"}
	if b := k.budget(limit); b != nil {
		o.Used, o.Limit, o.Until = b.Used, b.Limit, b.Renews
	}
	o.Over = i < 0 || slices.ContainsFunc(k.exceededLimits, func(o exceededLimit) bool { return o.limit == limit })
	return o
}

func (k *Key) budget(limit string) *Budget {
	limit = strings.TrimPrefix(limit, groupLimitPrefix)
	for i := range k.Budgets {
		if k.Budgets[i].Name == limit {
			return &k.Budgets[i]
		}
	}
	return nil
}

func refusedCallsText(n int) string { return pluralize(n, "call") + " refused" }

const groupLimitPrefix = "group_"

// The values of Key.Badge.
const (
	badgeOverLimit    = "over limit"
	badgeExpired      = "expired"
	badgeUsedUp       = "used up"
	badgeEndsSoon     = "ends soon"
	badgeNearlyUsedUp = "nearly used up"
)

// The first words of notes.
const (
	noteOverLimit = "is over its "
	noteEndsIn    = "ends in "
)

func (k *Key) badgeText(now time.Time) string {
	switch ends := k.Ends.Sub(now); {
	case len(k.exceededLimits) > 0:
		return badgeOverLimit
	case !k.Ends.IsZero() && ends <= 0:
		return badgeExpired
	case k.maxBudgetShare() >= 1:
		return badgeUsedUp
	case !k.Ends.IsZero() && ends < config.ExpiryNotice(time.Time{}, k.Ends):
		return badgeEndsSoon
	case k.maxBudgetShare() >= nearBudgetShare:
		return badgeNearlyUsedUp
	}
	return ""
}

func (k *Key) label() string {
	if k.IsGroup {
		return "the group " + k.ID
	}
	return "the key " + k.ID
}

// LimitUse describes how much of a limit is used.
type LimitUse struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// Budget describes how much of a key's budget is used.
type Budget struct {
	Name   string    `json:"name"` // tokens_per_day, tokens_per_month, spend_per_day, spend_per_month
	Used   string    `json:"used"` // tokens or money
	Limit  string    `json:"limit"`
	Share  float64   `json:"used_share"` // 1 means exhausted
	Renews time.Time `json:"renews"`
}

func (b Budget) renewalTime() string { return b.Renews.UTC().Format("2006-01-02 15:04 UTC") }

// Text describes the budget in one line.
func (b Budget) Text() string {
	text := b.Name + " "
	if b.Share >= 1 {
		text += "is used up: "
	}
	return text + b.Used + " of " + b.Limit + ", until " + b.renewalTime()
}

func (k *Key) maxBudgetShare() float64 {
	most := -1.0
	for i := range k.Budgets {
		most = max(most, k.Budgets[i].Share)
	}
	return most
}

// KeyDay is a key's usage today.
type KeyDay struct {
	Calls  uint64 `json:"calls"`
	Tokens uint64 `json:"tokens"`
}

// Target is one upstream of a route.
type Target struct {
	Upstream string `json:"upstream"`
	Served   string `json:"served"`
	Tier     int    `json:"tier,omitempty"`
	Arm      string `json:"arm,omitempty"`
	Eligible bool   `json:"eligible"`
	Why      string `json:"why,omitempty"`
	Down     bool   `json:"down,omitempty"` // the engine is down or stalled, or the breaker is open
}

// Input contains the data from which New builds a Status.
type Input struct {
	Routes    *routing.Table
	Upstreams []*upstreams.Upstream
	Calls     *observe.Calls
	Flights   []Call              // running calls; New may reorder and extend the slice
	Ended     []observe.EndedCall // newest first
	Keys      []Key               // without the fields about calls and refusals
	// KeysOver returns the keys with the given ids, and their groups. If KeysOver is set, it
	// replaces Keys. New passes the ids of the keys whose limits refused calls in the last minute.
	KeysOver func(ids map[string]bool) []Key
	Queues   map[string]*Queue // by model
	Now      time.Time
}

// New describes the edge. After that, the caller sets the fields about the process and calls
// SetVerdict.
func New(in *Input) *Status {
	s := &Status{
		Now: in.Now, Upstreams: []Upstream{}, Models: []Model{}, Finished: in.Calls.FinishedCount(),
		InFlight: in.Calls.InFlight(),
	}
	for _, u := range in.Upstreams {
		s.Upstreams = append(s.Upstreams, Upstream{Status: u.Status(in.Now)})
	}
	for _, r := range in.Routes.Routes() {
		m := newModel(r, in.Now)
		m.Queue = in.Queues[r.ID]
		for _, a := range routing.ListArms(r) {
			ended, missed, _ := in.Calls.ArmCallTotals(r.ID, a.Name)
			m.Arms = append(m.Arms, Arm{a, ended, missed})
		}
		s.Models = append(s.Models, m)
	}
	s.Calls = mergeCalls(in.Flights, in.Ended)
	outlook := in.Calls.Summary(in.Now)
	s.Keys = in.Keys
	if in.KeysOver != nil {
		s.Keys = in.KeysOver(keysOverLimit(outlook.Refusals))
	}
	running := map[string]int{}
	for i := range in.Flights {
		running[in.Flights[i].Key]++
	}
	ofGroup := map[string]int{}
	for i := range s.Keys {
		k := &s.Keys[i]
		if k.IsGroup { // groups follow their keys
			k.InFlight = ofGroup[k.ID]
			continue
		}
		k.InFlight = running[k.ID]
		ofGroup[k.Group] += k.InFlight
	}
	s.addCallSummary(outlook)
	return s
}

func keysOverLimit(refusals []observe.FailureReasonCount) (ids map[string]bool) {
	for i := range refusals {
		if r := &refusals[i]; r.Limit != "" && r.Minute > 0 {
			if ids == nil {
				ids = map[string]bool{}
			}
			ids[r.Key] = true
		}
	}
	return ids
}

func newModel(r *routing.Route, now time.Time) Model {
	m := Model{
		ID: r.ID, Ready: r.IsReady(now), Separate: r.HasSeparateModalityPools(),
		Pools: poolStates(routing.FirstTier(r), now), Slots: countSlots(r, now),
	}
	for _, t := range r.Targets() {
		why := t.Upstream.DescribeObstacle(t.Served, now)
		m.Targets = append(m.Targets, Target{
			Upstream: t.Upstream.Label(), Served: t.Served, Tier: t.Tier, Arm: t.Arm, Eligible: why == "",
			Why: why, Down: isDown(t.Upstream, now),
		})
	}
	serving := routing.ServingTier(r, now)
	for _, t := range r.Tiers {
		m.Tiers = append(m.Tiers, Tier{t.Targets()[0].Tier, t.When, t == serving, t.HasSeparateModalityPools(), poolStates(t, now), countSlots(t, now)})
	}
	return m
}

// isDown reports whether the engine is down or stalled, or its breaker is open. It returns false if
// an operator has taken the engine out of service, or if the engine is busy.
func isDown(u *upstreams.Upstream, now time.Time) bool {
	s := u.State()
	return s == upstreams.StateDown || s == upstreams.StateStalled || u.Breaker.StateAt(now) == upstreams.BreakerOpen
}

var allPools = []upstreams.SlotPool{upstreams.PoolText, upstreams.PoolVision, upstreams.PoolAudio}

func countSlots(r *routing.Route, now time.Time) Slots {
	c := r.TotalCapacity(allPools, now)
	return Slots{c.Active, c.Total}
}

func poolStates(r *routing.Route, now time.Time) map[string]Pool {
	pools := map[string]Pool{}
	for _, p := range allPools {
		c := r.PoolCapacity(p, now)
		pool := Pool{Active: c.Active, Total: c.Total, Available: c.Available}
		var seen []*upstreams.Upstream
		for _, t := range r.Targets() {
			if slices.Contains(seen, t.Upstream) || t.Upstream.DescribeObstacle(t.Served, now) != "" {
				continue
			}
			seen = append(seen, t.Upstream)
			var l upstreams.Load
			t.Upstream.ReadLoad(&l, p, upstreams.MomentOf(now))
			pool.Others, pool.Elsewhere = pool.Others+l.Others, pool.Elsewhere+l.Elsewhere
			if source := t.Upstream.Limits().Source; !slices.Contains(pool.Sources, source) {
				pool.Sources = append(pool.Sources, source)
			}
		}
		pools[p.String()] = pool
	}
	return pools
}

func (s *Status) addCallSummary(o *observe.HistorySummary) {
	s.Total = o.Total
	for i := range s.Upstreams {
		s.Upstreams[i].History = o.Upstream(s.Upstreams[i].Name)
	}
	groups := map[string]*Key{}
	for i := range s.Keys {
		if s.Keys[i].IsGroup {
			groups[s.Keys[i].ID] = &s.Keys[i]
		}
	}
	for i := range s.Keys {
		if !s.Keys[i].IsGroup {
			s.Keys[i].countRefusals(o.Refusals, groups[s.Keys[i].Group])
		}
	}
	s.Refusals, s.Failures, s.Attempts = reasonsFromCounts(o.Refusals), reasonsFromCounts(o.Failures), reasonsFromCounts(o.Attempts)
	for i := range s.Models {
		s.Models[i].History = o.Model(s.Models[i].ID)
	}
}

// countRefusals counts the refusals of a key. If the group's limit refused a call, the call also
// counts for the group. group may be nil.
func (k *Key) countRefusals(all []observe.FailureReasonCount, group *Key) {
	most := 0
	for i := range all {
		r := &all[i]
		if r.Key != k.ID {
			continue
		}
		switch {
		case r.Limit != "":
			k.OverLimit += r.Count
			if group != nil && strings.HasPrefix(r.Limit, groupLimitPrefix) {
				group.addExceededLimit(r)
			} else {
				k.addExceededLimit(r)
			}
		case r.Outcome == observe.OutcomeLimited:
			k.Full += r.Count
		}
		if k.Refused += r.Count; r.Count > most {
			most, k.Why = r.Count, cmp.Or(r.Limit, r.Code)
		}
	}
}

func (k *Key) addExceededLimit(r *observe.FailureReasonCount) {
	if r.Minute == 0 {
		return
	}
	i := slices.IndexFunc(k.exceededLimits, func(o exceededLimit) bool { return o.limit == r.Limit })
	if i < 0 {
		i, k.exceededLimits = len(k.exceededLimits), append(k.exceededLimits, exceededLimit{limit: r.Limit})
	}
	o := &k.exceededLimits[i]
	o.calls += r.Minute
	if r.Last.After(o.last) {
		o.last = r.Last
	}
}
