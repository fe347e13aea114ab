package chat

import (
	"strconv"
	"strings"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// The members in this file let a small request cause a lot of work for an engine. The work is
// repeated for every token (stop sequences, biases, log probabilities) or every choice, or is done
// before generation starts (grammars, schemas). Engines limit only a few of these members. The
// limits are far above the values that clients are known to send.

// memberBound limits one member. A field that is 0 sets no limit.
type memberBound struct {
	name        string // a top-level member, or outer.inner for the member inner of the object outer
	maxElements int    // maximum number of elements of an array or an object
	elementNoun string
	maxBytes    int   // maximum length as JSON
	maxValue    int64 // maximum of an integer, which must not be negative
	minValue    int64 // minimum that an error states; the member's reader enforces it
	schema      *schemaBound
}

const (
	maxStops           = 256
	maxTokenIDs        = 1024
	maxBiases          = 4096
	maxTools           = 1024
	maxTopLogprobs     = 128
	maxTextsBytes      = 64 << 10
	maxRegexBytes      = 16 << 10
	maxGrammarBytes    = 256 << 10
	maxToolsBytes      = 1 << 20 // most of the text is descriptions
	maxToolChoiceBytes = 128 << 10
	maxSamplers        = 64
)

// The limits for the schemas of an answer, and for the schemas of tools.
var (
	answerSchemaBound = &schemaBound{maxListed: maxListElements}
	toolSchemasBound  = &schemaBound{maxListed: maxToolListElements}
)

var memberBounds = [...]memberBound{
	{name: "stop", maxElements: maxStops, elementNoun: "strings", maxBytes: maxTextsBytes},
	{name: "stop_sequences", maxElements: maxStops, elementNoun: "strings", maxBytes: maxTextsBytes},
	{name: "stop_regex", maxElements: maxStops, elementNoun: "strings", maxBytes: maxRegexBytes},
	{name: "stop_token_ids", maxElements: maxTokenIDs, elementNoun: "tokens"},
	{name: "bad_words", maxElements: maxTokenIDs, elementNoun: "strings", maxBytes: maxTextsBytes},
	{name: "dry_sequence_breakers", maxElements: maxStops, elementNoun: "strings", maxBytes: maxTextsBytes},
	{name: "logit_bias", maxElements: maxBiases, elementNoun: "tokens"},
	{name: "antiprompt", maxElements: maxStops, elementNoun: "strings", maxBytes: maxTextsBytes},
	{name: "preserved_tokens", maxElements: maxTokenIDs, elementNoun: "strings", maxBytes: maxTextsBytes},
	{name: "grammar_triggers", maxElements: maxTokenIDs, elementNoun: "triggers", maxBytes: maxTextsBytes},
	{name: "allowed_token_ids", maxElements: maxBiases, elementNoun: "tokens"},
	{name: "token_ids_logprob", maxElements: maxTokenIDs, elementNoun: "tokens"},
	{name: "logprob_token_ids", maxElements: maxTokenIDs, elementNoun: "tokens"},
	{name: "samplers", maxElements: maxSamplers, elementNoun: "samplers", maxBytes: maxRegexBytes},
	{name: "tools", maxElements: maxTools, elementNoun: "tools", maxBytes: maxToolsBytes, schema: toolSchemasBound},
	{name: "functions", maxElements: maxTools, elementNoun: "tools", maxBytes: maxToolsBytes, schema: toolSchemasBound},
	{name: "tool_choice", maxBytes: maxToolChoiceBytes},
	{name: "n", maxValue: translate.MaxChoices, minValue: 1},
	{name: nameNCmpl, maxValue: translate.MaxChoices, minValue: 1},
	{name: "best_of", maxValue: translate.MaxChoices, minValue: 1},
	{name: "logprobs", maxValue: maxTopLogprobs}, // for legacy completions; in chat, logprobs is a boolean
	{name: "top_logprobs", maxValue: maxTopLogprobs},
	{name: "prompt_logprobs", maxValue: maxTopLogprobs},
	{name: "n_probs", maxValue: maxTopLogprobs},
	{name: "top_logprobs_num", maxValue: maxTopLogprobs},
	{name: "top_n_tokens", maxValue: maxTopLogprobs},
	{name: "regex", maxBytes: maxRegexBytes},
	{name: "guided_regex", maxBytes: maxRegexBytes},
	{name: "structured_outputs.regex", maxBytes: maxRegexBytes},
	{name: "grammar", maxBytes: maxGrammarBytes},
	{name: "grammar.value", schema: answerSchemaBound}, // TGI: a schema, or a regular expression
	{name: "ebnf", maxBytes: maxGrammarBytes},
	{name: "guided_grammar", maxBytes: maxGrammarBytes},
	{name: "structured_outputs.grammar", maxBytes: maxGrammarBytes},
	{name: "guided_choice", maxElements: maxBiases, elementNoun: "strings", maxBytes: maxGrammarBytes},
	{name: "structured_outputs.choice", maxElements: maxBiases, elementNoun: "strings", maxBytes: maxGrammarBytes},
	{name: "structural_tag", maxBytes: maxGrammarBytes, schema: answerSchemaBound},
	{name: "structured_outputs.structural_tag", maxBytes: maxGrammarBytes, schema: answerSchemaBound},
	{name: "structured_outputs.json", maxBytes: maxGrammarBytes, schema: answerSchemaBound},
	{name: "guided_json", maxBytes: maxGrammarBytes, schema: answerSchemaBound},
	{name: "json_schema", maxBytes: maxGrammarBytes, schema: answerSchemaBound},
	{name: "response_format", maxBytes: maxGrammarBytes, schema: answerSchemaBound},
	{name: "text.format", maxBytes: maxGrammarBytes, schema: answerSchemaBound},          // Responses
	{name: "output_format", maxBytes: maxGrammarBytes, schema: answerSchemaBound},        // Messages
	{name: "output_config.format", maxBytes: maxGrammarBytes, schema: answerSchemaBound}, // Messages
	{name: "format", maxBytes: maxGrammarBytes, schema: answerSchemaBound},               // Ollama
}

// samplingParamsName is an object from which SGLang reads additional request members.
const samplingParamsName = "sampling_params"

var boundedMemberNames, boundsByName = func() (*jsonx.NameIndex, [][]*memberBound) {
	var (
		names []string
		of    [][]*memberBound
	)
	names, of = append(names, samplingParamsName), append(of, nil)
	at := map[string]int{}
	for i := range memberBounds {
		outer, _, _ := strings.Cut(memberBounds[i].name, ".")
		if _, known := at[outer]; !known {
			at[outer] = len(names)
			names, of = append(names, outer), append(of, nil)
		}
		of[at[outer]] = append(of[at[outer]], &memberBounds[i])
	}
	return jsonx.NewNameIndex(names...), of
}()

// CheckBounds rejects a request of any dialect that exceeds the limits. It checks every occurrence
// of a member and ignores the case of names.
func CheckBounds(root jsonx.Value) *InvalidMember {
	if !root.IsObject() {
		return nil
	}
	for it := root.Iter(); it.Next(); {
		i := boundedMemberNames.Index(it.Key())
		if i < 0 {
			continue // true for nearly every name
		}
		if it.Key().EqualFold(samplingParamsName) {
			if e := CheckBounds(it.Value()); e != nil {
				return e.InObject(samplingParamsName)
			}
			continue
		}
		for _, b := range boundsByName[i] {
			if text := b.check(it.Value()); text != "" {
				return WrongValueError(b.name, text)
			}
		}
	}
	return nil
}

func (b *memberBound) check(v jsonx.Value) string {
	_, inner, nested := strings.Cut(b.name, ".")
	if !nested {
		return b.violation(v)
	}
	if v.IsObject() {
		for it := v.Iter(); it.Next(); {
			if it.Key().EqualFold(inner) {
				if text := b.violation(it.Value()); text != "" {
					return text
				}
			}
		}
	}
	return ""
}

func (b *memberBound) violation(v jsonx.Value) string {
	if n, ok := v.Int(); ok && b.maxValue > 0 && (n < 0 || n > b.maxValue) {
		return "must be between " + strconv.FormatInt(b.minValue, 10) + " and " + strconv.FormatInt(b.maxValue, 10)
	}
	length := v.End() - v.Start()
	if b.maxElements > 0 && length > 2*b.maxElements && (v.IsArray() || v.IsObject()) && v.Len() > b.maxElements {
		return "must hold at most " + strconv.Itoa(b.maxElements) + " " + b.elementNoun
	}
	if b.maxBytes > 0 && length > b.maxBytes {
		return "must be at most " + strconv.Itoa(b.maxBytes>>10) + " KiB long"
	}
	if b.schema != nil {
		return b.schema.violation(v)
	}
	return ""
}
