// Package messages translates between the Messages dialect, which Claude Code and the Anthropic
// SDKs speak, and the chat dialect that engines speak: a request in one direction, and a whole
// answer or a stream of events in the other. Package dialects describes what this package shares
// with Responses.
//
// # Requests
//
//	system, role system     one leading system message (in_place: they keep their position)
//	text blocks             a string, joined by line ends; beside images an array of parts in order
//	image                   image_url with a data URL or the URL
//	tool_use                tool_calls, the input as JSON in a string
//	tool_result             tool messages first; their images in the user message that follows
//	document, search_result their text; PDFs and files are refused, since no engine here reads them
//	thinking                reasoning_content of its message; sealed thinking is opened
//	server tools            omitted from the history
//	compaction              its summary becomes text of its turn
//	context_management      clear_thinking edits are applied; the answer lists the applied edits
//	tools                   functions; server tools are dropped beside functions, else refused
//	bash, text_editor,      functions with the schema that the vendor documents for the version;
//	memory                  computer use is dropped like server tools
//	tool_choice             auto, none, required, a function; parallel use as parallel_tool_calls
//	stop_sequences          stop
//	thinking disabled       reasoning_effort none; unknown types are adaptive, displays summarized;
//	                        budget_tokens has no counterpart and is named in Dropped
//	output_config           effort becomes reasoning_effort, format becomes response_format
//	a last assistant turn   stays last (see chat.EngineFormat.Prefill)
//
// Everything else (metadata, cache_control, other edits, betas, mcp_servers, container) is accepted
// and ignored; RequestInfo.Dropped names those ignored members on which a client may rely. Only
// thread is refused, because it asks the edge to store a conversation. The wording of the error
// makes the SDKs send the whole conversation instead.
//
// # Answers
//
// The blocks of an answer are thinking (if the client asked for it), text, and tool_use, in the
// engine's order. A client that wants thinking omitted, or that uses the beta that redacts
// thinking, gets the thinking sealed (package seal). It sends the sealed thinking back, so that the
// model gets it in the next turn. Only one block is open at a time. A delta is sent as soon as it
// arrives, unless this rule forbids it. The arguments of an open tool call may continue, so the
// deltas of other blocks wait until the tool call is complete.
//
// # Design
//
// The translation of a message depends only on that message: consecutive messages with the same
// role are not merged, and a request contains nothing random. With fold, system text in the middle
// of a conversation changes the leading message once. in_place is for templates that accept such
// text in place.
//
// The signature of visible thinking is a constant. It is never checked, because a client may send
// anything to a model. A random signature would make two equal answers differ. Sealed thinking that
// cannot be opened is omitted from the history, whatever its origin.
//
// The edge never repairs malformed arguments of a tool call, because the tool would run with
// arguments that the model did not request. Clients get the model's own text. In a stream it is
// unchanged, and in a whole answer it is a JSON value, a string if necessary. Agents report
// malformed arguments to the model, which then writes better ones; after an error they would repeat
// the same request until they gave up. chat.Arguments handles the copy that agents send back. A
// stream whose arguments break off fails, however, because some clients turn the partial arguments
// into an object. There are two exceptions. No arguments at all mean {}. A tool call that was cut
// off by the token limit ends as the dialect requires, with stop_reason max_tokens and, in a whole
// answer, an input of {}. In a stream the client keeps what has been sent.
//
// A stop sequence is reported only if it is one of the client's, because engines also report stop
// strings from their own templates.
//
// Tool ids come from the engine. The edge replaces an id that is missing, that is only a count, or
// that two tool calls share, because results are matched by id throughout a conversation.
package messages
