package catalog

import (
	_ "embed"
	"slices"

	"penstock/config"
	"penstock/translate/chat"
)

// codexInstructions contains the base instructions for Codex. Codex rejects an entry without
// instructions. It has built-in instructions only for OpenAI's models.
//
//go:embed codex_instructions.txt
var codexInstructions string

// codexPage adds the list that Codex reads instead of the data member. If a model has no entry in
// this list, Codex guesses its context length.
type codexPage struct {
	Models []codexModel `json:"models"`
}

// codexModel is an entry in Codex's catalog. The members without omitempty are required by at least
// one version of Codex (0.169 or earlier).
type codexModel struct {
	Slug                      string          `json:"slug"`
	DisplayName               string          `json:"display_name"`
	DefaultReasoningLevel     string          `json:"default_reasoning_level,omitempty"`
	SupportedReasoningLevels  []codexEffort   `json:"supported_reasoning_levels"`
	ShellType                 string          `json:"shell_type"`
	Visibility                string          `json:"visibility"`
	SupportedInAPI            bool            `json:"supported_in_api"`
	Priority                  int             `json:"priority"`
	BaseInstructions          string          `json:"base_instructions"`
	SupportsReasoningSummary  bool            `json:"supports_reasoning_summaries"`
	SupportVerbosity          bool            `json:"support_verbosity"`
	ApplyPatchToolType        string          `json:"apply_patch_tool_type,omitempty"`
	TruncationPolicy          codexTruncation `json:"truncation_policy"`
	SupportsParallelToolCalls bool            `json:"supports_parallel_tool_calls"`
	ContextWindow             int             `json:"context_window,omitempty"`
	MaxContextWindow          int             `json:"max_context_window,omitempty"`
	ExperimentalTools         []string        `json:"experimental_supported_tools"`
	InputModalities           []string        `json:"input_modalities"`
}

type codexEffort struct {
	Effort      string `json:"effort"`
	Description string `json:"description"`
}

// codexTruncation limits how much tool output Codex sends to a model.
type codexTruncation struct {
	Mode  string `json:"mode"`
	Limit int    `json:"limit"`
}

var effortTexts = map[string]string{
	"none": "Answers without reasoning", "low": "Reasons briefly", "medium": "Balances speed and depth",
	"high": "Reasons at length", "xhigh": "Reasons as long as it can",
}

// newCodexModel returns a model's entry for Codex. rank is the model's position in the list. Codex
// prefers the first model.
func newCodexModel(e *modelEntry, rank int, strict bool) codexModel {
	m := codexModel{
		Slug: e.ID, DisplayName: e.Name, SupportedReasoningLevels: []codexEffort{},
		ShellType: "default", Visibility: "list", SupportedInAPI: true, Priority: rank,
		BaseInstructions: codexInstructions, TruncationPolicy: codexTruncation{"bytes", 10000},
		SupportsParallelToolCalls: true, ContextWindow: e.ContextLength, MaxContextWindow: e.ContextLength,
		ExperimentalTools: []string{}, InputModalities: []string{},
	}
	if !strict { // a strict edge accepts only function tools
		m.ApplyPatchToolType = "freeform"
	}
	for _, modality := range e.InputModalities {
		if modality == "text" || modality == "image" { // Codex supports no other modalities
			m.InputModalities = append(m.InputModalities, modality)
		}
	}
	if e.ModelInfo == nil {
		return m
	}
	for _, effort := range e.ModelInfo.SupportedReasoningEfforts {
		m.SupportedReasoningLevels = append(m.SupportedReasoningLevels, codexEffort{effort, effortTexts[effort]})
	}
	m.DefaultReasoningLevel = defaultEffort(e.ModelInfo.SupportedReasoningEfforts)
	m.SupportsReasoningSummary = m.DefaultReasoningLevel != ""
	return m
}

// defaultEffort returns medium if the model offers it, and otherwise the first effort. If efforts
// is empty, it returns "".
func defaultEffort(efforts []string) string {
	switch {
	case len(efforts) == 0:
		return ""
	case slices.Contains(efforts, "medium"):
		return "medium"
	}
	return efforts[0]
}

// supportsCodex reports whether Codex can use the model. Codex sends tools with every request.
func (e *modelEntry) supportsCodex() bool {
	unknown := e.SupportedFeatures == nil || slices.Equal(e.SupportedFeatures, []string{featureRetained})
	tools := unknown || slices.Contains(e.SupportedFeatures, chat.FeatureTools)
	return e.Kind == config.ModelKindChat && tools && slices.Contains(e.SupportedEndpoints, "/v1/responses")
}
