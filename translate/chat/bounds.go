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

// bound limits one member. A field that is 0 sets no limit.
type bound struct {
	name     string // a top-level member, or outer.inner for the member inner of the object outer
	elements int    // maximum number of elements of an array or an object
	of       string
	bytes    int   // maximum length as JSON
	value    int64 // maximum of an integer, which must not be negative
	least    int64 // minimum that an error states; the member's reader enforces it
	schema   *schemaBound
}

const (
	mostStops      = 256
	mostTokens     = 1024
	mostBiases     = 4096
	mostTools      = 1024
	mostTop        = 128
	longestTexts   = 64 << 10
	longestRegex   = 16 << 10
	longestGrammar = 256 << 10
	longestTools   = 1 << 20 // most of the text is descriptions
	longestChoice  = 128 << 10
	mostSamplers   = 64
)

// The limits for the schemas of an answer, and for the schemas of tools.
var (
	answerSchema = &schemaBound{listed: mostListed}
	toolSchemas  = &schemaBound{listed: mostToolsListed}
)

var bounds = [...]bound{
	{name: "stop", elements: mostStops, of: "strings", bytes: longestTexts},
	{name: "stop_sequences", elements: mostStops, of: "strings", bytes: longestTexts},
	{name: "stop_regex", elements: mostStops, of: "strings", bytes: longestRegex},
	{name: "stop_token_ids", elements: mostTokens, of: "tokens"},
	{name: "bad_words", elements: mostTokens, of: "strings", bytes: longestTexts},
	{name: "dry_sequence_breakers", elements: mostStops, of: "strings", bytes: longestTexts},
	{name: "logit_bias", elements: mostBiases, of: "tokens"},
	{name: "antiprompt", elements: mostStops, of: "strings", bytes: longestTexts},
	{name: "preserved_tokens", elements: mostTokens, of: "strings", bytes: longestTexts},
	{name: "grammar_triggers", elements: mostTokens, of: "triggers", bytes: longestTexts},
	{name: "allowed_token_ids", elements: mostBiases, of: "tokens"},
	{name: "token_ids_logprob", elements: mostTokens, of: "tokens"},
	{name: "logprob_token_ids", elements: mostTokens, of: "tokens"},
	{name: "samplers", elements: mostSamplers, of: "samplers", bytes: longestRegex},
	{name: "tools", elements: mostTools, of: "tools", bytes: longestTools, schema: toolSchemas},
	{name: "functions", elements: mostTools, of: "tools", bytes: longestTools, schema: toolSchemas},
	{name: "tool_choice", bytes: longestChoice},
	{name: "n", value: translate.MaxChoices, least: 1},
	{name: nameOfChoices, value: translate.MaxChoices, least: 1},
	{name: "best_of", value: translate.MaxChoices, least: 1},
	{name: "logprobs", value: mostTop}, // for legacy completions; in chat, logprobs is a boolean
	{name: "top_logprobs", value: mostTop},
	{name: "prompt_logprobs", value: mostTop},
	{name: "n_probs", value: mostTop},
	{name: "top_logprobs_num", value: mostTop},
	{name: "top_n_tokens", value: mostTop},
	{name: "regex", bytes: longestRegex},
	{name: "guided_regex", bytes: longestRegex},
	{name: "structured_outputs.regex", bytes: longestRegex},
	{name: "grammar", bytes: longestGrammar},
	{name: "grammar.value", schema: answerSchema}, // TGI: a schema, or a regular expression
	{name: "ebnf", bytes: longestGrammar},
	{name: "guided_grammar", bytes: longestGrammar},
	{name: "structured_outputs.grammar", bytes: longestGrammar},
	{name: "guided_choice", elements: mostBiases, of: "strings", bytes: longestGrammar},
	{name: "structured_outputs.choice", elements: mostBiases, of: "strings", bytes: longestGrammar},
	{name: "structural_tag", bytes: longestGrammar, schema: answerSchema},
	{name: "structured_outputs.structural_tag", bytes: longestGrammar, schema: answerSchema},
	{name: "structured_outputs.json", bytes: longestGrammar, schema: answerSchema},
	{name: "guided_json", bytes: longestGrammar, schema: answerSchema},
	{name: "json_schema", bytes: longestGrammar, schema: answerSchema},
	{name: "response_format", bytes: longestGrammar, schema: answerSchema},
	{name: "text.format", bytes: longestGrammar, schema: answerSchema},          // Responses
	{name: "output_format", bytes: longestGrammar, schema: answerSchema},        // Messages
	{name: "output_config.format", bytes: longestGrammar, schema: answerSchema}, // Messages
	{name: "format", bytes: longestGrammar, schema: answerSchema},               // Ollama
}

// samplingParams is an object from which SGLang reads additional request members.
const samplingParams = "sampling_params"

var boundNames, boundsOf = func() (*jsonx.Names, [][]*bound) {
	var (
		names []string
		of    [][]*bound
	)
	names, of = append(names, samplingParams), append(of, nil)
	at := map[string]int{}
	for i := range bounds {
		outer, _, _ := strings.Cut(bounds[i].name, ".")
		if _, known := at[outer]; !known {
			at[outer] = len(names)
			names, of = append(names, outer), append(of, nil)
		}
		of[at[outer]] = append(of[at[outer]], &bounds[i])
	}
	return jsonx.NewNames(names...), of
}()

// CheckBounds rejects a request of any dialect that exceeds the limits. It checks every occurrence
// of a member, in any case.
func CheckBounds(root jsonx.Value) *Invalid {
	if !root.IsObject() {
		return nil
	}
	for it := root.Iter(); it.Next(); {
		i := boundNames.Index(it.Key())
		if i < 0 {
			continue // true for nearly every name
		}
		if it.Key().Fold(samplingParams) {
			if e := CheckBounds(it.Value()); e != nil {
				return e.In(samplingParams)
			}
			continue
		}
		for _, b := range boundsOf[i] {
			if text := b.check(it.Value()); text != "" {
				return WrongValue(b.name, text)
			}
		}
	}
	return nil
}

func (b *bound) check(v jsonx.Value) string {
	_, inner, nested := strings.Cut(b.name, ".")
	if !nested {
		return b.exceeded(v)
	}
	if v.IsObject() {
		for it := v.Iter(); it.Next(); {
			if it.Key().Fold(inner) {
				if text := b.exceeded(it.Value()); text != "" {
					return text
				}
			}
		}
	}
	return ""
}

func (b *bound) exceeded(v jsonx.Value) string {
	if n, ok := v.Int(); ok && b.value > 0 && (n < 0 || n > b.value) {
		return "must be between " + strconv.FormatInt(b.least, 10) + " and " + strconv.FormatInt(b.value, 10)
	}
	length := v.End() - v.Start()
	if b.elements > 0 && length > 2*b.elements && (v.IsArray() || v.IsObject()) && v.Len() > b.elements {
		return "must hold at most " + strconv.Itoa(b.elements) + " " + b.of
	}
	if b.bytes > 0 && length > b.bytes {
		return "must be at most " + strconv.Itoa(b.bytes>>10) + " KiB long"
	}
	if b.schema != nil {
		return b.schema.exceeded(v)
	}
	return ""
}
