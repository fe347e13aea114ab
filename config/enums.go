package config

import "slices"

// Values of File.OnRevoke.
const (
	OnRevokeEnd   = "end"
	OnRevokeAbort = "abort"
)

// EngineAuto is the value of Upstream.Engine that makes the edge detect the engine.
const EngineAuto = "auto"

// Values of KeyLimits.Per.
const (
	LimitPerCaller = "caller"
	LimitPerKey    = "key"
)

// Values of Model.PromptCache.
const (
	PromptCacheShared = "shared"
	PromptCachePerKey = "per_key"
)

// Values of Model.SystemMessages.
const (
	SystemMessagesFold    = "fold"
	SystemMessagesInPlace = "in_place"
)

// Values of Engine.AdjacentTurns.
const (
	AdjacentTurnsAsSent = "as_sent"
	AdjacentTurnsJoined = "joined"
)

// Values of Model.ReasoningHistory.
const (
	ReasoningHistoryLoop = "loop"
	ReasoningHistoryAll  = "all"
	ReasoningHistoryNone = "none"
)

var defaultClasses = []Class{{Name: "interactive"}, {Name: "batch"}}

// EffectiveClasses returns a file's classes in order.
func EffectiveClasses(f *File) []Class {
	if len(f.Classes) == 0 {
		return defaultClasses
	}
	return f.Classes
}

// HasClasses reports whether a file uses classes anywhere.
func HasClasses(f *File) bool {
	return len(f.Classes) > 0 || slices.ContainsFunc(f.Keys, func(k Key) bool { return k.Class != "" }) ||
		slices.ContainsFunc(f.Models, func(m Model) bool { return m.Reserve > 0 })
}

// ClassRank returns the position of a class in the file's order, or 0 if the class is unknown.
func ClassRank(f *File, class string) int {
	return max(0, slices.IndexFunc(EffectiveClasses(f), func(c Class) bool { return c.Name == class }))
}

// Values of Deployment.When.
const (
	DeploymentUsedWhenFull = "full"
	DeploymentUsedWhenDown = "down"
)

// MaxTier is the highest tier of a deployment.
const MaxTier = 7

// MaxArms is the maximum number of arms of a model.
const MaxArms = 8

// PrefillProven is the only value of Upstream.Prefill.
const PrefillProven = "proven"

// Values of Log.Format.
const (
	LogFormatJSON    = "json"
	LogFormatConsole = "console"
)

var modelKinds = []string{
	ModelKindChat, ModelKindTranscription, ModelKindSpeech, ModelKindImage, ModelKindImageEdit, ModelKindEmbedding, ModelKindRerank,
}

// allowedValues maps schema paths to closed sets of values. It is used for validation and for the
// JSON Schema.
var allowedValues = map[string][]string{
	"auth":              {AuthNone},
	"on_revoke":         {OnRevokeEnd, OnRevokeAbort},
	"log.level":         {"debug", "info", "warn", "error"},
	"log.format":        {LogFormatJSON, LogFormatConsole},
	"keys.operations":   Operations(),
	"keys.limits.per":   {LimitPerCaller, LimitPerKey},
	"upstreams.prefill": {PrefillProven},
	"admin.tokens.role": {AdminRoleRead, AdminRoleKeys, AdminRoleAll},
	"hooks.on_error":    {HookFailClosed, HookFailOpen},
	"hooks.send":        {HookSendMeta, HookSendBody},
	"fleet.lost":        {StoreLostDivide, StoreLostOpen, StoreLostClosed},
	"fleet.keys.store":  {FleetKeyStoreRequired, FleetKeyStoreCached},

	"upstreams.concurrency.fleet": {FleetExact},

	"upstreams.wake.method": {"GET", "POST", "PUT"},

	"models.deployments.when": {DeploymentUsedWhenFull, DeploymentUsedWhenDown},

	"models.kind":              modelKinds,
	"discover.kind":            modelKinds,
	"models.policy":            {PolicyLeastLoaded, PolicyPrefixAffinity, PolicyTwoChoices, PolicyRoundRobin},
	"models.prompt_cache":      {PromptCacheShared, PromptCachePerKey},
	"models.system_messages":   {SystemMessagesFold, SystemMessagesInPlace},
	"models.reasoning_history": {ReasoningHistoryLoop, ReasoningHistoryAll, ReasoningHistoryNone},
	"models.supported_endpoints": {
		"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses",
		"/v1/responses/compact", "/v1/responses/input_tokens", "/v1/audio/transcriptions", "/v1/audio/speech", "/v1/embeddings", "/v1/rerank",
		"/v1/images/generations", "/v1/images/edits", "/v1/score", "/v1/classify", "/v1/pooling", "/tokenize", "/detokenize", "/v1/moderations", "/v1/realtime",
	},
	"models.supported_reasoning_efforts": {"none", "low", "medium", "high", "xhigh"},
}

// Operations returns all operations to which a key can be limited. The caller owns the list.
func Operations() []string {
	return slices.Clone([]string{
		OpChat, OpMessages, OpResponses, OpCompact, OpTranscriptions, OpSpeech, OpEmbeddings,
		OpRerank, OpImages, OpScore, OpClassify, OpPooling, OpTokenize, OpModerations, OpRealtime,
	})
}
