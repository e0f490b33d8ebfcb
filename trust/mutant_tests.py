"""List the fast tests that must detect the mutants of a module, beside the module's doctests.

Modules that are not in the table are not tested with mutants.
"""

from __future__ import annotations

ADDITIVE = (
    "tests/conformance/test_accounting.py",
    "tests/conformance/test_radius_accounting.py",
    "tests/test_private_radius.py",
    "tests/test_release_units.py",
)

REFUSED = "tests/test_planning.py::test_a_budget_that_a_mechanism_can_not_keep_is_refused"
BATTERY = (
    "tests/conformance/test_mechanisms.py::test_a_relation_given_as_text_is_the_relation",
    "tests/conformance/test_mechanisms.py::test_the_noise_grows_as_the_budget_shrinks",
    "tests/conformance/test_mechanisms.py::test_the_data_is_read_at_most_as_often_as_stated",
)
SEPARATE = (
    "tests/papers/test_separate.py",
    "tests/test_private_radius.py::test_a_public_radius_is_that_of_the_schema_and_costs_nothing",
    "tests/test_private_radius.py::test_noise_of_the_counts_costs_the_stated_share",
    "tests/test_private_radius.py::test_fields_without_a_meaning_are_refused",
    "tests/test_private_radius.py::test_the_moment_gets_the_noise_of_the_rest_of_the_budget",
    "tests/test_private_radius.py::"
    "test_errors_after_denoising_stay_below_the_bounds_that_choose_the_radius",
    "tests/conformance/test_radius_accounting.py",
    "tests/papers/test_values_accounting.py",
    *BATTERY,
)
SPECTRAL = ("tests/papers/test_spectral_accounting.py", *BATTERY)


def approximate(name: str) -> tuple[str, ...]:
    """Return the conformance tests of a mechanism that needs a delta."""
    return tuple(
        f"tests/conformance/{test}[{name}-{neighbors}-ApproxDP]"
        for test in (
            "test_mechanisms.py::test_a_relation_given_as_text_is_the_relation",
            "test_readings.py::"
            "test_the_data_is_read_as_often_as_stated_and_rows_are_held_where_stated",
        )
        for neighbors in ("add-remove", "replace-one")
    )


ENCODER = (
    "tests/test_encoder.py",
    "tests/test_focused_maps.py",
    "tests/test_weights.py::test_any_row_with_any_weight_is_certified",
    "tests/test_weights.py::test_a_weighted_row_depends_on_itself_alone",
    "tests/test_weights.py::test_a_row_counts_with_its_share_of_the_largest_weight",
    "tests/test_weights.py::test_a_weight_that_is_none_counts_nothing",
    "tests/test_weights.py::test_the_clip_comes_after_the_weight",
    "tests/test_weights.py::test_rows_kept_in_memory_are_weighted",
    "tests/test_encoded.py",
    "tests/test_kinds.py",
)

BINGHAM = (
    "tests/papers/test_bingham.py::test_log_acceptance_is_never_positive_and_is_the_formula",
    "tests/papers/test_bingham.py::test_acceptance_is_certain_at_the_largest_ratio_only",
    "tests/papers/test_bingham.py::test_envelope_solves_its_equation_between_1_and_q",
    "tests/papers/test_bingham.py::test_the_envelope_is_the_root_of_its_equation_in_many_digits",
    "tests/papers/test_bingham.py::test_equal_gaps_of_many_coordinates_have_the_largest_envelope",
    "tests/papers/test_bingham.py::"
    "test_proposals_are_gaussian_with_the_precision_of_the_envelope_and_normalised",
    "tests/papers/test_bingham.py::test_acceptance_turns_the_envelope_into_the_density_of_the_law",
    "tests/papers/test_bingham.py::"
    "test_a_proposal_is_accepted_where_the_exponential_is_not_below_its_price",
    "tests/papers/test_bingham.py::test_a_certain_proposal_is_accepted_by_the_smallest_exponential",
    "tests/papers/test_bingham.py::test_the_first_accepted_proposal_is_the_draw_and_batches_double_to_64",
    "tests/papers/test_bingham.py::test_draws_are_finite_unit_vectors_for_every_size_and_concentration",
    "tests/papers/test_bingham.py::test_equal_exponents_take_one_proposal_and_their_level_does_not_matter",
    "tests/papers/test_bingham.py::test_a_single_coordinate_is_plus_or_minus_one",
    "tests/papers/test_bingham.py::test_exponents_that_no_law_has_are_refused",
    "tests/papers/test_bingham.py::"
    "test_differences_as_large_as_floats_allow_leave_the_axis_of_the_largest",
)
FRAME = (
    "tests/papers/test_frame.py::test_updated_eigenvalues_and_vectors_are_those_of_the_projected_matrix",
    "tests/papers/test_frame.py::test_the_vector_taken_out_has_the_given_coordinates",
    "tests/papers/test_frame.py::test_update_is_orthogonal_for_hostile_gaps_and_weights",
    "tests/papers/test_frame.py::test_frames_are_orthonormal_whatever_the_spectrum",
    "tests/papers/test_frame.py::test_restarts_change_nothing_but_rounding",
    "tests/papers/test_frame.py::test_a_decomposition_is_made_every_so_many_draws",
    "tests/papers/test_frame.py::test_fewer_vectors_than_dimensions_may_be_drawn_and_no_more",
    "tests/papers/test_frame.py::test_each_vector_has_its_own_concentration",
)

TESTS: dict[str, tuple[str, ...]] = {
    "src/dpcov/core/privacy.py": ("tests/test_privacy.py", "tests/papers/test_composition.py"),
    "src/dpcov/core/parameters.py": (
        "tests/test_parameters.py",
        "tests/conformance/test_accounting.py::"
        "test_a_share_for_the_trace_outside_of_0_to_1_is_refused",
    ),
    "src/dpcov/rows/moment.py": (
        "tests/test_moment.py",
        "tests/conformance/test_radius_accounting.py",
        "tests/test_focused_maps.py",
        "tests/test_encoder.py",
        "tests/test_standardized.py::test_features_are_divided_by_the_stated_power_of_their_spread",
        "tests/test_row_transform.py::test_no_row_is_mapped_beyond_the_radius_and_some_come_near",
        "tests/test_row_transform.py::test_no_row_of_levels_is_mapped_beyond_the_radius_and_some_reach_it",
    ),
    "src/dpcov/rows/schema.py": (
        "tests/test_schema.py",
        "tests/test_kinds.py",
        "tests/test_persons.py",
        "tests/test_weights.py",
        "tests/test_grouped.py::test_a_wrong_column_is_refused_in_one_sentence",
        "tests/test_grouped.py::test_what_can_not_set_levels_apart_is_refused",
        "tests/test_grouped.py::test_a_schema_says_where_its_by_is_wrong",
        "tests/test_grouped.py::test_one_release_is_not_made_of_a_schema_that_asks_for_many",
        "tests/test_grouped.py::test_a_level_has_the_moments_of_its_rows",
        "tests/test_encoder.py::test_undeclared_and_missing_levels_follow_their_policies",
        "tests/test_notebook.py",
    ),
    "src/dpcov/mechanisms/additive.py": (
        "tests/conformance/test_accounting.py",
        "tests/test_private_radius.py::test_a_trace_alone_costs_what_the_matrix_would",
        "tests/test_release_units.py",
        "tests/test_releases.py::"
        "test_the_gate_is_for_more_than_one_column_and_a_public_number_of_rows",
        "tests/conformance/test_mechanisms.py::"
        "test_noise_that_64_bits_cannot_hold_is_refused_and_nothing_is_spent",
        "tests/statistical/test_matrix_laplace.py::"
        "test_halves_are_rounded_up_so_that_rounding_commutes_with_integer_shifts",
        "tests/statistical/test_matrix_laplace.py::"
        "test_what_is_published_is_the_sum_rounded_to_the_coarser_lattice",
        "tests/conformance/test_mechanisms.py::"
        "test_what_is_published_is_the_sum_plus_draws_of_the_stated_laws",
        "tests/conformance/test_mechanisms.py::"
        "test_a_sum_beyond_64_bits_is_published_as_the_largest_number",
        "tests/test_row_transform.py",
    ),
    "src/dpcov/mechanisms/gaussian.py": (*ADDITIVE, REFUSED),
    "src/dpcov/mechanisms/pure.py": (*ADDITIVE, REFUSED),
    "src/dpcov/papers/laplace.py": (
        "tests/conformance/test_accounting.py::"
        "test_a_share_for_the_trace_outside_of_0_to_1_is_refused",
        "tests/papers/test_laplace_accounting.py",
        "tests/papers/test_values_accounting.py::"
        "test_radius_entries_and_trace_spend_epsilon_and_no_more",
        "tests/test_private_radius.py",
        "tests/test_release_units.py",
        *BATTERY,
    ),
    "src/dpcov/papers/nuclear_laplace.py": (
        "tests/conformance/test_accounting.py::"
        "test_a_share_for_the_trace_outside_of_0_to_1_is_refused",
        "tests/test_private_radius.py",
        "tests/test_release_units.py",
        "tests/papers/test_nuclear.py::test_an_unknown_form_is_refused",
        *BATTERY,
    ),
    "src/dpcov/papers/adaptive.py": ("tests/papers/test_adaptive.py", *BATTERY),
    "src/dpcov/papers/adaptive_gaussian.py": ("tests/papers/test_adaptive.py", *BATTERY),
    "src/dpcov/papers/adaptive_laplace.py": ("tests/papers/test_adaptive.py", *BATTERY),
    "src/dpcov/papers/separate.py": SEPARATE,
    "src/dpcov/papers/separate_gaussian.py": SEPARATE,
    "src/dpcov/papers/separate_laplace.py": SEPARATE,
    "src/dpcov/papers/quadratic_forms.py": ("tests/papers/test_quadratic_forms.py",),
    "src/dpcov/papers/spectral.py": (*SPECTRAL, *SEPARATE),
    "src/dpcov/papers/eigenvector_sampling.py": SPECTRAL,
    "src/dpcov/papers/kapralov_talwar.py": SPECTRAL,
    "src/dpcov/papers/exponential_pca.py": SPECTRAL,
    "src/dpcov/papers/preconditioned.py": (
        "tests/papers/test_preconditioned.py::"
        "test_a_query_estimates_number_mean_and_covariance_of_the_mapped_rows",
        "tests/papers/test_preconditioned.py::test_errors_of_a_query_come_from_noise_and_sampling",
        "tests/papers/test_preconditioned.py::test_a_center_stays_within_the_bounds",
        "tests/papers/test_preconditioned.py::test_singular_values_are_kept_within_a_ratio_of_the_least",
        "tests/papers/test_preconditioned.py::test_the_tail_is_a_bound_on_the_norm_of_round_rows",
        "tests/papers/test_preconditioned.py::"
        "test_a_share_too_small_for_the_noise_is_refused_before_anything_is_read",
        "tests/papers/test_preconditioned.py::"
        "test_noise_wider_than_64_bits_alone_decides_the_scale_and_the_number_of_rows",
        "tests/papers/test_preconditioned.py::"
        "test_there_are_no_more_queries_than_requested_and_passes_are_counted",
        "tests/papers/test_preconditioned.py::"
        "test_a_query_ends_the_search_when_every_direction_is_twice_above_the_noise",
        "tests/papers/test_preconditioned.py::test_all_queries_and_counts_add_up_to_rho",
        "tests/papers/test_preconditioned.py::"
        "test_a_direction_in_which_noise_exceeds_the_rows_counts_as_empty_not_as_large",
        "tests/papers/test_preconditioned.py::"
        "test_with_an_intercept_means_and_covariances_come_back_in_units",
        "tests/papers/test_preconditioned.py::"
        "test_the_queries_begin_where_half_of_the_rows_are_within_a_factor_of_2",
        "tests/papers/test_preconditioned.py::"
        "test_a_row_more_or_another_row_moves_the_balance_by_no_more_than_its_law_covers",
        "tests/papers/test_preconditioned.py::test_options_and_budgets_that_make_no_sense_are_refused",
        "tests/papers/test_preconditioned.py::test_directions_without_rows_leave_a_map_that_can_be_undone",
        *BATTERY,
    ),
    "src/dpcov/core/samplers/weighted.py": ("tests/test_weighted.py",),
    "src/dpcov/mechanisms/matrix_laplace.py": (
        "tests/conformance/test_accounting.py",
        "tests/test_releases.py::"
        "test_the_gate_is_for_more_than_one_column_and_a_public_number_of_rows",
        "tests/conformance/test_radius_accounting.py::"
        "test_radius_matrix_and_trace_spend_epsilon_and_no_more",
    ),
    "src/dpcov/mechanisms/radius_losses.py": ("tests/test_radius_losses.py",),
    "src/dpcov/mechanisms/radius.py": (
        "tests/test_private_radius.py",
        "tests/conformance/test_accounting.py::test_a_private_radius_takes_a_second_pass",
        "tests/conformance/test_radius_accounting.py",
    ),
    "src/dpcov/papers/transformed.py": (
        "tests/papers/test_transformed.py",
        "tests/test_standardized.py",
    ),
    "src/dpcov/mechanisms/standardized.py": (
        "tests/test_standardized.py",
        "tests/test_pilot_queries.py",
        "tests/test_norm_histogram.py",
        "tests/test_missing.py::test_a_pilot_uses_means_and_spreads_of_the_present_cells",
        "tests/test_missing.py::test_a_gap_is_mapped_to_no_deviation_and_one_deviation_of_its_mark",
    ),
    "src/dpcov/mechanisms/row_transform.py": (
        "tests/test_row_transform.py",
        "tests/test_pilot_queries.py",
    ),
    "src/dpcov/papers/additive_wishart.py": (
        "tests/papers/test_wishart_calibration.py",
        "tests/papers/test_additive_wishart.py",
        *approximate("additive-wishart"),
    ),
    "src/dpcov/papers/heavy_tailed.py": (
        "tests/papers/test_heavy_tailed_parts.py",
        "tests/papers/test_heavy_tailed.py::test_queries_counts_and_release_add_up_to_rho",
        "tests/papers/test_heavy_tailed.py::"
        "test_for_epsilon_and_delta_every_variance_is_8_larger_to_cover_the_rounding",
        "tests/papers/test_heavy_tailed.py::test_options_and_budgets_that_make_no_sense_are_refused",
        "tests/papers/test_heavy_tailed.py::test_no_row_is_longer_than_what_the_radius_is_limited_to",
        *BATTERY,
    ),
    "src/dpcov/papers/whitened.py": (
        "tests/papers/test_whitened_parts.py",
        "tests/papers/test_stable_covariance.py::test_whitened_releases_mapped_rows_at_the_stated_rho",
        "tests/papers/test_stable_covariance.py::test_the_parts_of_whitened_add_up_to_the_budget",
        "tests/papers/test_stable_covariance.py::test_options_that_make_no_sense_are_refused",
        *approximate("whitened"),
    ),
    "src/dpcov/papers/unbounded_gaussian.py": (
        "tests/papers/test_unbounded_gaussian_parts.py",
        "tests/papers/test_unbounded_gaussian.py::test_all_steps_together_keep_the_budget",
        "tests/papers/test_unbounded_gaussian.py::test_the_first_gap_is_the_first_ratio_above_four",
        "tests/papers/test_unbounded_gaussian.py::test_steps_bring_eigenvalues_together",
        "tests/papers/test_unbounded_gaussian.py::test_what_makes_no_sense_is_refused_from_public_numbers",
        "tests/papers/test_unbounded_gaussian.py::test_the_rest_of_the_budget_after_queries_goes_to_the_release",
    ),
    "src/dpcov/papers/stable_covariance.py": (
        "tests/papers/test_stable_covariance_parts.py",
        "tests/papers/test_stable_covariance.py::"
        "test_as_many_rows_as_stated_are_enough_and_half_are_not[stable-covariance]",
        "tests/papers/test_stable_covariance.py::"
        "test_the_parts_of_a_stable_covariance_add_up_to_the_budget",
        "tests/papers/test_stable_covariance.py::test_options_that_make_no_sense_are_refused",
        "tests/papers/test_stable_covariance.py::"
        "test_budgets_that_cannot_be_kept_are_refused_from_public_numbers",
        "tests/papers/test_stable_covariance.py::test_nothing_is_drawn_after_a_refusal",
        *approximate("stable-covariance"),
    ),
    "src/dpcov/papers/ashtiani_liaw.py": (
        "tests/papers/test_ashtiani_liaw_parts.py",
        "tests/papers/test_ashtiani_liaw.py::test_the_parts_add_up_to_the_budget",
        "tests/papers/test_ashtiani_liaw.py::test_what_makes_no_sense_is_refused",
        *approximate("ashtiani-liaw"),
    ),
    "src/dpcov/mechanisms/__init__.py": (
        "tests/conformance/test_mechanisms.py::"
        "test_an_unknown_name_or_option_is_refused_with_the_choices",
        "tests/conformance/test_mechanisms.py::"
        "test_an_option_of_the_wrong_type_is_refused_and_right_ones_are_kept",
        "tests/conformance/test_mechanisms.py::test_the_text_of_a_type_error_is_not_shown",
        "tests/test_packages.py",
        "tests/test_set_options.py",
        "tests/papers/test_wishart_demonstration.py::test_it_is_no_mechanism_and_asking_for_it_says_why",
    ),
    "src/dpcov/core/samplers/discrete.py": ("tests/test_discrete.py",),
    "src/dpcov/core/samplers/scalars.py": (
        "tests/test_noise_laws.py",
        "tests/conformance/test_accounting.py",
    ),
    "src/dpcov/core/samplers/orthogonal.py": (
        "tests/test_noise_laws.py",
        "tests/conformance/test_accounting.py",
    ),
    "src/dpcov/core/samplers/wishart.py": (
        "tests/test_noise_laws.py",
        "tests/statistical/test_matrix_laplace.py::"
        "test_halves_are_rounded_up_so_that_rounding_commutes_with_integer_shifts",
        "tests/conformance/test_accounting.py",
    ),
    "src/dpcov/papers/samplers/entrywise.py": (
        "tests/papers/test_entrywise_laplace.py",
        "tests/papers/test_laplace_accounting.py",
        "tests/test_noise_laws.py",
    ),
    "src/dpcov/papers/samplers/bingham.py": BINGHAM,
    "src/dpcov/papers/samplers/additive_wishart.py": (
        "tests/papers/test_additive_wishart_noise.py",
    ),
    "src/dpcov/papers/samplers/frame.py": FRAME,
    "src/dpcov/papers/samplers/nuclear.py": (
        "tests/papers/test_nuclear_draws.py",
        "tests/papers/test_nuclear.py::test_the_expected_squared_norm_is_that_of_the_pfaffians",
        "tests/test_planning.py::test_expected_noise_is_that_of_simulations",
    ),
    "src/dpcov/papers/samplers/complement.py": ("tests/papers/test_complement.py", *FRAME),
    "src/dpcov/papers/samplers/log_gas.py": ("tests/papers/test_log_gas.py",),
    "src/dpcov/papers/samplers/pfaffian.py": (
        "tests/papers/test_pfaffian.py",
        "tests/papers/test_nuclear.py::test_a_number_out_of_reach_gives_the_limit",
    ),
    "src/dpcov/papers/samplers/precise.py": ("tests/papers/test_precise.py",),
    "src/dpcov/core/samplers/normal.py": ("tests/test_normal.py",),
    "src/dpcov/core/samplers/__init__.py": (
        "tests/test_noise_laws.py",
        "tests/conformance/test_accounting.py",
        "tests/test_releases.py",
    ),
    "src/dpcov/rows/encoder.py": ENCODER,
    "src/dpcov/rows/cells.py": ENCODER,
    "src/dpcov/rows/numbers.py": ("tests/test_own_types.py", "tests/test_encoder.py"),
    "src/dpcov/mechanisms/count.py": ("tests/test_count.py",),
    "src/dpcov/core/accounting.py": (
        "tests/test_conversions.py",
        "tests/test_rounding.py",
        "tests/test_privacy_filter.py",
    ),
    "src/dpcov/core/privacy_filter.py": ("tests/test_privacy_filter.py", "tests/test_ledger.py"),
    "src/dpcov/rows/sources/ids.py": ("tests/test_ids.py",),
    "src/dpcov/mechanisms/choice.py": (
        "tests/test_planning.py",
        "tests/test_pilot_queries.py::test_auto_queries_directions_if_few_features_are_indicators",
        "tests/test_pilot_queries.py::test_each_goal_has_its_clip_and_the_moment_as_a_whole_its_map",
        "tests/test_odd_options.py",
    ),
    "src/dpcov/releases/file.py": (
        "tests/test_releases.py",
        "tests/test_release_files.py",
        "tests/test_old_files.py",
        "tests/test_row_transform.py::test_an_intercept_that_no_map_explains_is_refused",
        "tests/test_norm_histogram.py::test_a_file_brings_the_counts_back_and_refuses_damaged_ones",
        "tests/test_count.py::test_the_count_and_its_law_survive_the_file",
        "tests/test_count.py::test_a_file_without_a_count_loads_and_one_without_its_law_is_refused",
        "tests/test_count.py::test_a_count_with_noise_is_refused_where_the_number_is_public",
    ),
    "src/dpcov/releases/former_files.py": (
        "tests/test_release_files.py",
        "tests/test_old_files.py",
        "tests/test_row_transform.py::test_an_intercept_that_no_map_explains_is_refused",
        "tests/test_norm_histogram.py::test_a_file_brings_the_counts_back_and_refuses_damaged_ones",
        "tests/test_count.py::test_the_count_and_its_law_survive_the_file",
        "tests/test_count.py::test_a_file_without_a_count_loads_and_one_without_its_law_is_refused",
        "tests/test_count.py::test_a_count_with_noise_is_refused_where_the_number_is_public",
    ),
    "src/dpcov/published/norm_histogram.py": (
        "tests/test_norm_histogram.py",
        "tests/test_clipped.py",
    ),
    "src/dpcov/published/clipping.py": ("tests/test_clipped.py", "tests/test_norm_histogram.py"),
    "src/dpcov/rows/sources/readstat.py": ("tests/test_formats.py",),
    "src/dpcov/rows/sources/stored.py": ("tests/test_formats.py", "tests/test_stata.py"),
    **dict.fromkeys(
        (
            f"src/dpcov/rows/sources/{name}.py"
            for name in ("workbook", "ooxml", "sheet", "sheet_cells")
        ),
        ("tests/test_workbooks.py", "tests/test_formats.py"),
    ),
    "src/dpcov/denoise/structure.py": (
        "tests/test_structure.py",
        "tests/test_missing.py::test_what_the_schema_implies_holds_of_mapped_rows_too",
    ),
    "src/dpcov/estimate/repeated.py": ("tests/test_expected.py",),
    "src/dpcov/estimate/errors.py": (
        "tests/test_plausible.py",
        "tests/test_intervals.py",
        "tests/test_count.py::"
        "test_plausible_moments_of_mapped_rows_move_with_the_count_as_their_own_moment_does",
        "tests/test_norm_histogram.py::test_intervals_know_of_the_clip_and_without_the_counts_they_do_not",
        "tests/test_missing.py::test_intervals_cover_the_available_case_figures",
        "tests/test_missing.py::test_sampling_errors_keep_cells_that_are_missing_at_nothing",
    ),
    "src/dpcov/analysis/intervals.py": (
        "tests/test_ends_of_intervals.py",
        "tests/test_intervals.py",
    ),
}
