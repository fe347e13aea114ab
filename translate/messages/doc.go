// Package messages translates between the Messages dialect, which Claude Code and the Anthropic
// SDKs speak, and the chat dialect that engines speak: a request one way, a whole answer or a
// stream of events the other. Package dialects tells what it has in common with Responses.
//
// # Requests
//
//	system, role system     one leading system message (in_place: where they stand)
//	text blocks             a string, joined by line ends; beside images an array of parts in order
//	image                   image_url with a data URL or the URL
//	tool_use                tool_calls, the input as JSON in a string
//	tool_result             tool messages first; their images in the user message that follows
//	document, search_result their text; PDFs and files are refused, since no engine here reads them
//	thinking                reasoning_content of its message; sealed one is opened
//	server tools            left out of the history
//	compaction              its summary is text of the turn that it stands in
//	context_management      clear_thinking edits are obeyed; the answer says which edits were
//	tools                   functions; server tools are dropped beside functions and refused alone
//	bash, text_editor,      functions with the schema that the vendor documents for the version;
//	memory                  computer use is dropped like server tools
//	tool_choice             auto, none, required, a function; parallel use as parallel_tool_calls
//	stop_sequences          stop
//	thinking disabled       reasoning_effort none; an unknown type is adaptive, an unknown display summarized;
//	                        budget_tokens has no counterpart and is named in Dropped
//	output_config           effort becomes reasoning_effort, format becomes response_format
//	an assistant's at last  stays there (see chat.EngineFormat.Prefill)
//
// Everything else (metadata, cache_control, other edits, betas, mcp_servers, container) is
// accepted and goes no further; RequestInfo.Dropped names what a client may count on. Only thread
// is refused: it asks for a conversation that is kept here. The words make the SDKs send the whole
// of it instead.
//
// # Answers
//
// The blocks of an answer are thinking (when the client asked for it), text, and tool_use, in the
// engine's order. A client that wants thinking omitted, or has the beta that redacts it, carries it
// sealed (package seal), so that the model has it again in the next turn. One block is open at a
// time. A delta goes out as it comes, except where that rule forbids it: while a tool call is open
// its arguments may go on, so the deltas of other blocks wait until it is complete.
//
// # Design
//
// The translation of a message depends on that message alone: neighbours of one role are not
// merged, and nothing random is in a request. Under fold, system text that comes in the middle of a
// conversation changes the leading message once; in_place is there for templates that can do
// better.
//
// The signature of thinking that is shown is a constant. It is never checked, since a client may
// tell a model what it likes, and a random one would make two equal answers differ. What cannot be
// opened is left out of the history, whoever has sealed it.
//
// The edge never repairs malformed arguments of a tool call into valid ones: the tool would run on
// something that the model did not ask for. Clients get the model's own text, in a stream as it
// came and in a whole answer as a JSON value, if need be a string. Agents report it to the model,
// which then writes better arguments; after an error they would repeat the same request until they
// give up. See chat.Arguments for the copy that they send back. A stream whose arguments break off
// fails, though, since some clients make an object of their beginning. Two exceptions: no arguments
// at all mean {}, and a tool call that the token limit has cut ends as the dialect has it, with
// stop_reason max_tokens and, in a whole answer, an input of {}; in a stream the client has what
// came.
//
// A stop sequence is named only when it is one of the client's: engines also report stop strings of
// their own templates.
//
// Tool ids are the engine's. The edge replaces an id that is missing, a mere count, or on two tool
// calls, for results are matched by it throughout a conversation.
package messages
