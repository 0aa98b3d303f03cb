"""Why a trace failed, and what to write instead."""
