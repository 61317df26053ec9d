-- The trace under which an input was handed in, a W3C traceparent.

alter table perdure.inputs add column trace text;
